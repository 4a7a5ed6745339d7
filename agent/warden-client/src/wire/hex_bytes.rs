//! JSON has no bytes: two hex digits each.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, s: S) -> Result<S::Ok, S::Error> {
    match bytes {
        None => s.serialize_none(),
        Some(bytes) => {
            let mut text = String::with_capacity(bytes.len() * 2);
            for byte in bytes {
                text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
                text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
            }
            s.serialize_str(&text)
        }
    }
}

pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<u8>>, D::Error> {
    let Some(text) = Option::<String>::deserialize(d)? else {
        return Ok(None);
    };
    let digit = |c: u8| char::from(c).to_digit(16).map(|v| v as u8);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect::<Option<Vec<u8>>>()
        .map(Some)
        .ok_or_else(|| D::Error::custom("not a row of hex digits"))
}
