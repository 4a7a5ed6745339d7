//! A crontab, and whose it is.

use super::anacron;
use super::line::{Line, parse};

/// One crontab.
#[derive(Clone, Debug)]
pub struct File {
    /// As people know it: its path.
    pub name: String,
    pub text: String,
    pub owner: Owner,
    /// Its lines may have six and seven fields: seconds first, a year last.
    pub seconds: bool,
    /// Where its jobs are to run.
    pub place: Place,
    /// What is known of it beside its text, to be told with what is said of it.
    pub notes: Vec<String>,
}

/// Where jobs are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each run on some node.
    Any,
    /// On each node.
    EachNode,
    /// On the node with this address. The same line of several such crontabs is one job.
    Node(String),
}

/// Whose jobs a crontab holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The sixth field of each line is a user.
    System,
    /// A user's own: everything runs as this user, or as the agent's when there is none.
    User(Option<String>),
}

impl File {
    pub(super) fn lines(&self) -> Vec<Line> {
        if anacron::is_anacrontab(self) {
            return anacron::parse(&self.text);
        }
        parse(&self.text, self.owner == Owner::System, self.seconds)
    }

    pub(super) fn host(&self) -> Option<&str> {
        match &self.place {
            Place::Node(host) => Some(host),
            Place::Any | Place::EachNode => None,
        }
    }

    /// What jobs are named after: not after the host, which comes last.
    pub(super) fn stem(&self) -> &str {
        let last = self.name.rsplit('/').next();
        if last.is_some() && last == self.host() {
            ""
        } else {
            &self.name
        }
    }
}
