//! Where messages go, as `[notify.NAME]` of a job file says.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::format::Format;
use super::topic::{Channel, Topic};
use crate::defaults::with_defaults;
use crate::retry::full_jitter;

with_defaults! {
    /// A target after validation, stored as JSON. It holds names of secrets, never secrets.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct TargetSpec {
        pub webhook: Option<String>,
        /// A file in the agents' directory of secrets that holds the URL.
        pub webhook_file: Option<String>,
        /// Likewise, one `Name: value` on each line.
        pub headers_file: Option<String>,
        /// The service that the webhook leads to, if it takes another form than ours.
        pub format: Option<Format>,
        pub email: Vec<String>,
        pub on: Vec<Topic> = Topic::CHOSEN.to_vec(),
    }
}

/// A target as it is stored; None for one that this release cannot read, which must not keep others from being told.
pub fn stored<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TargetSpec>, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(serde_json::from_value(value).ok())
}

impl TargetSpec {
    /// The ways that a message to it goes, each on its own.
    pub fn channels(&self) -> Vec<Channel> {
        let webhook = self.webhook.is_some() || self.webhook_file.is_some();
        let all = [
            (Channel::Webhook, webhook),
            (Channel::Email, !self.email.is_empty()),
        ];
        all.into_iter()
            .filter_map(|(channel, used)| used.then_some(channel))
            .collect()
    }

    /// Whether messages about this go to it; a test always does.
    pub fn wants(&self, topic: Topic) -> bool {
        topic == Topic::Test || self.on.contains(&topic)
    }
}

/// The pause after a try that failed, the first of them being number 1: three times as long each time, half an hour
/// at most, the second half of it by chance.
pub fn pause(tries: i32, random: u64) -> Duration {
    let power = u32::try_from(tries.clamp(1, 8) - 1).unwrap_or(0);
    let half = Duration::from_secs(3_u64.pow(power).min(900));
    half + full_jitter(half, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_threefold_up_to_half_an_hour() {
        let all: Vec<u64> = (1..=9).map(|n| pause(n, 0).as_secs()).collect();
        assert_eq!(all, [1, 3, 9, 27, 81, 243, 729, 900, 900]);
        assert!(pause(1, u64::MAX) > Duration::from_millis(1_999));
        assert!(pause(i32::MAX, u64::MAX) <= Duration::from_secs(1_800));
    }
}
