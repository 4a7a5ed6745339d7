//! What an agent asks a warden to start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use farmhand_core::attempt::Claimed;
use farmhand_core::definition::{ChildLimit, Command, Isolation, Limits};
use serde::{Deserialize, Serialize};

use super::AttemptId;
use super::hex_bytes;

/// What a warden needs to start an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpawnRequest {
    pub id: AttemptId,
    pub fence: i64,
    pub command: Command,
    /// The environment. The warden adds `FARMHAND_RUN_DIR` and `FARMHAND_PROGRESS_FD`, and HOME, LOGNAME, SHELL and
    /// USER of the user where they are not in it.
    pub env: BTreeMap<String, String>,
    /// The run directory when absent.
    pub cwd: Option<String>,
    /// 022 when absent.
    pub umask: Option<u32>,
    /// A name; the policy's default when absent, else the warden's own user.
    pub user: Option<String>,
    /// The file that says who this may run as, read by the warden; without one its own user alone.
    pub policy: Option<PathBuf>,
    /// The list of keys by which definitions must be signed here, read by the warden; without one it asks for none.
    pub trusted_keys: Option<PathBuf>,
    /// What the warden builds the request from itself, where signatures are asked for; the rest of it is then not used.
    pub order: Option<Box<Order>>,
    /// The command's secrets: where it finds each (`FARMHAND_SECRET_NAME_FILE`), and what it is called in the node's store.
    pub secrets: BTreeMap<String, String>,
    /// The node's store, where the policy names no other.
    pub secrets_dir: Option<PathBuf>,
    /// The nice value; the warden's own when absent.
    pub nice: Option<i32>,
    /// `/dev/null` when absent; at most [`MAX_STDIN`] bytes.
    #[serde(with = "hex_bytes")]
    pub stdin: Option<Vec<u8>>,
    pub limits: Limits,
    /// From exec to SIGTERM.
    pub timeout_ms: Option<u64>,
    /// From SIGTERM to SIGKILL.
    pub grace_ms: u64,
    /// The kernel kills the warden, and so everything, if the attempt has not been killed by then.
    pub hard_end_ns: Option<u64>,
    pub isolation: Isolation,
    /// Bytes of output kept in the state directory.
    pub output_local: u64,
    /// Silence for so long on the progress descriptor ends the attempt.
    pub progress_timeout_ms: Option<u64>,
    pub child_limits: Vec<ChildLimit>,
    /// Not looked at; an adopting agent gets it back in [`super::AttemptReport::extra`].
    pub extra: serde_json::Value,
}

/// A claimed run as the database gave it, with what the agent adds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub claimed: Claimed,
    pub address: String,
    pub session: i64,
    pub slot: u32,
    pub claim_sent_ns: u64,
    /// By the database's clock.
    pub now: jiff::Timestamp,
    /// Of the node, as its configuration has them.
    pub labels: BTreeMap<String, String>,
}

/// The most bytes that a command finds on its stdin.
pub const MAX_STDIN: usize = 1 << 20;

impl SpawnRequest {
    /// A request with every default, to be filled in further.
    pub fn new(id: AttemptId, fence: i64, command: Command) -> Self {
        SpawnRequest {
            id,
            fence,
            command,
            env: BTreeMap::new(),
            cwd: None,
            umask: None,
            user: None,
            policy: None,
            trusted_keys: None,
            order: None,
            secrets: BTreeMap::new(),
            secrets_dir: None,
            nice: None,
            stdin: None,
            limits: Limits::default(),
            timeout_ms: None,
            grace_ms: 10_000,
            hard_end_ns: None,
            isolation: Isolation::default(),
            output_local: 64 << 20,
            progress_timeout_ms: None,
            child_limits: Vec::new(),
            extra: serde_json::Value::Null,
        }
    }
}
