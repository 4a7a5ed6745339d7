//! What an agent without rights is held to. Root writes it down where nobody else can; wardens read it before each start,
//! and what the agent says about the same things then does not count.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::paths::{Paths, named};
use crate::wire::{Refusal, SpawnRequest};
use farmhand_os::accounts::Account;
use farmhand_os::files::{if_there, replace};
use farmhand_policy::Policy;

/// What an agent without rights is held to. A warden may be older than its agent: fields are only added, with a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Whose processes talk to networks; its group may read output.
    pub agent: Account,
    /// The file that says which users and commands jobs may have.
    pub policy: PathBuf,
    /// The list of keys by which definitions must be signed; none when no signature is asked for.
    pub trusted_keys: Option<PathBuf>,
    /// The node's store of secrets, where the policy names no other.
    pub secrets_dir: PathBuf,
}

impl Bounds {
    /// `None`: the agent has all the rights that its warden has.
    /// An error: they cannot be read, and then nothing may start.
    pub fn now(paths: &Paths) -> io::Result<Option<Bounds>> {
        let file = paths.bounds();
        let text = if_there(fs::read(&file)).map_err(|e| named(e, &file))?;
        let bounds = text.map(|text| serde_json::from_slice(&text)).transpose();
        bounds.map_err(|e| named(e.into(), &file))
    }

    /// As they are now, for whoever is `held` to them.
    /// Errors: They cannot be read, or are gone because another agent has the node.
    pub fn of(paths: &Paths, held: bool) -> Result<Option<Bounds>, Refusal> {
        let why = match Bounds::now(paths) {
            Ok(None) if held => {
                "another agent has this node, and the bounds that held this one are gone".to_owned()
            }
            Ok(bounds) => return Ok(bounds),
            Err(e) => format!("what the agent is held to cannot be read: {e}"),
        };
        Err(Refusal::Machine { why })
    }

    /// For every later warden of this state directory.
    pub fn write(&self, paths: &Paths) -> io::Result<()> {
        let file = paths.bounds();
        let written = replace(&file, &serde_json::to_vec(self)?);
        written.map(drop).map_err(|e| named(e, &file))
    }

    /// For an agent that has all the rights that its warden has.
    pub fn remove(paths: &Paths) -> io::Result<()> {
        let file = paths.bounds();
        fs::remove_file(&file).map_err(|e| named(e, &file))
    }

    /// Puts these bounds into a request, over whatever it had.
    pub fn hold(self, request: &mut SpawnRequest) {
        request.policy = Some(self.policy);
        request.trusted_keys = self.trusted_keys;
        request.secrets_dir = Some(self.secrets_dir);
    }

    /// What the policy says now, to whoever is not to become the agent's user.
    pub fn policy(agent: Option<Account>, request: &SpawnRequest) -> Policy {
        let policy = Policy::now(request.policy.as_deref());
        match agent {
            Some(agent) => policy.keeping_apart(agent.uid),
            None => policy,
        }
    }
}
