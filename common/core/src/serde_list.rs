//! A list of texts, of which one alone stands without brackets, for serde.

pub mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(list: &[String], s: S) -> Result<S::Ok, S::Error> {
        match list {
            [one] => one.serialize(s),
            list => list.serialize(s),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Texts {
            One(String),
            Many(Vec<String>),
        }
        Ok(match Texts::deserialize(d)? {
            Texts::One(one) => vec![one],
            Texts::Many(many) => many,
        })
    }
}
