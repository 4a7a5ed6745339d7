//! A list of texts, of which one alone stands without brackets, for serde.

/// For `#[serde(with)]`: a list of one is a text.
pub mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// A list of one as a text, others as lists.
    pub fn serialize<S: Serializer>(list: &[String], s: S) -> Result<S::Ok, S::Error> {
        match list {
            [one] => one.serialize(s),
            list => list.serialize(s),
        }
    }

    /// A text, or a list of texts.
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
