//! Why claims are closed: what the newest epoch says of its server, beside what answers.

use serde::Serialize;

/// Why a database is not open for claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Closed {
    /// `farmhand epoch bump` was run, and no agent has opened the next epoch yet.
    Bumped,
    /// An agent remembers more than this database has.
    Doubted,
    /// Another cluster: a dump, an upgrade, a logical replica.
    OtherCluster,
    /// The same cluster; another timeline, or its tables are other files.
    OtherPlace,
    /// Only the start of the server differs.
    Restarted,
}

impl Closed {
    /// `epoch` and `now` are what the newest epoch and the server say: the server, as `farmhand.server()` gives it, and
    /// the cluster, which some services do not tell.
    pub fn of(epoch: (&str, Option<&str>), now: (&str, Option<&str>)) -> Option<Self> {
        if epoch.0 == now.0 {
            return None;
        }
        let place = |server: &str| server.split_once(' ').map(|(_, place)| place.to_owned());
        Some(match epoch.0.split_once(' ') {
            Some(("bumped", _)) => Self::Bumped,
            Some(("closed", _)) => Self::Doubted,
            _ if epoch.1 != now.1 => Self::OtherCluster,
            _ if place(epoch.0) != place(now.0) => Self::OtherPlace,
            _ => Self::Restarted,
        })
    }

    /// As an explanation after "claims are closed: ".
    pub fn because(self) -> &'static str {
        match self {
            Self::Bumped => "`farmhand epoch bump` was run, and no agent has opened the next epoch yet",
            Self::Doubted => "an agent remembers more than this database has: it is an older copy",
            Self::OtherCluster => {
                "another cluster answers than the epoch was opened on: a restore, an upgrade or a move"
            }
            Self::OtherPlace => "the same cluster answers from another place: a failover or a restore",
            Self::Restarted => "the server was restarted, and no agent that knows it has renewed since",
        }
    }

    /// Whether another database may have been used in the meantime, whose epochs and fences this one does not know.
    pub fn may_lack_epochs(self) -> bool {
        matches!(self, Self::Doubted | Self::OtherCluster | Self::OtherPlace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_has_its_reason() {
        let here = ("5 1.base/1/2", Some("7"));
        for (epoch, why) in [
            (here, None),
            (("4 1.base/1/2", Some("7")), Some(Closed::Restarted)),
            (("4 2.base/1/2", Some("7")), Some(Closed::OtherPlace)),
            (("4 1.base/1/2", Some("8")), Some(Closed::OtherCluster)),
            (("4 2.base/1/2", None), Some(Closed::OtherCluster)),
            (("bumped 1", Some("7")), Some(Closed::Bumped)),
            (("closed 1", Some("7")), Some(Closed::Doubted)),
        ] {
            assert_eq!(Closed::of(epoch, here), why, "{epoch:?}");
        }
    }
}
