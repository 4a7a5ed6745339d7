//! JSON has no bytes: two hex digits each.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

pub(crate) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, s: S) -> Result<S::Ok, S::Error> {
    bytes.as_ref().map(hex::encode).serialize(s)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text = Option::<String>::deserialize(d)?;
    text.map(hex::decode).transpose().map_err(D::Error::custom)
}
