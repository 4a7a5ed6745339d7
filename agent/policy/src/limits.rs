//! What a job may use whose definition names no limits.

use farmhand_core::document::parse_size;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Limits of jobs that name none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultLimits {
    pub processes: Option<u32>,
    /// Bytes; a text such as "4GiB" in the file.
    #[serde(default, deserialize_with = "memory")]
    pub memory: Option<u64>,
}

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Size {
        Text(String),
        Bytes(u64),
    }
    match Option::<Size>::deserialize(from)? {
        Some(Size::Text(text)) => {
            let size = parse_size(&text)
                .map_err(|why| D::Error::custom(format!("\"{text}\" is not a size: {why}")))?;
            Ok(Some(size))
        }
        Some(Size::Bytes(bytes)) => Ok(Some(bytes)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Policy, Rules};

    #[test]
    fn default_limits_are_a_users_own_or_those_of_all() {
        let text = "users = ['*']\nlimits = { processes = 100, memory = '4GiB' }\n\
                    [user.mailer]\nlimits = { processes = 5 }\n";
        let rules: Rules = toml::from_str(text).unwrap();
        let policy = Policy::Listed {
            file: "/etc/p".to_owned(),
            rules: Box::new(rules),
            apart: None,
        };
        let of = |user: &str| policy.limits(&[user]).limits.unwrap();
        assert_eq!((of("x").processes, of("x").memory), (Some(100), Some(4 << 30)));
        assert_eq!((of("mailer").processes, of("mailer").memory), (Some(5), None));
        let again: Policy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
        assert_eq!(again, policy);
        for bad in ["limits = { memory = '4 apples' }", "limits = { disk = '1GiB' }"] {
            assert!(
                toml::from_str::<Rules>(&format!("users = []\n{bad}\n")).is_err(),
                "{bad}"
            );
        }
    }
}
