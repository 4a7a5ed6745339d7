//! What every part of the agent shares.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use farmhand_core::definition::NODE_LABEL;
use farmhand_core::lease::LeaseTiming;
use farmhand_core::release;
use farmhand_store::Db;
use farmhand_store::protocol::NodeInfo;
use serde_json::json;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::config::{AgentConfig, Tunable};
use crate::memory::Memory;
use crate::notify::Wake;
use crate::outage::Outage;
use crate::reporter::{Checkpoints, Report};
use crate::row_writer::RowBell;
use crate::session::StartBackoff;
use farmhand_telemetry::events::Events;

/// What every part of the agent needs and none owns.
pub(crate) struct Context {
    pub config: AgentConfig,
    /// The pool for everything but renewals.
    pub db: Db,
    /// A connection of its own, so that no slow statement delays a renewal.
    pub lease_db: Db,
    pub events: Events,
    /// What it remembers of the database.
    pub memory: Memory,
    /// Whether the database is away, as this agent sees it.
    pub outage: Outage,
    /// Wakes the task that tells people.
    pub wake: Wake,
    /// Users' tables are looked at on connections of their own, perhaps of another login.
    pub tables_db: Db,
    /// Wakes the task that writes users' rows.
    pub row_bell: RowBell,
    pub timing: LeaseTiming,
    pub reports: mpsc::UnboundedSender<Report>,
    /// How far running attempts have come.
    pub checkpoints: Checkpoints,
    /// SIGTERM leaves the jobs to the next agent.
    pub hand_over: bool,
    /// Reads flags, environment and file again; the error is for people.
    pub reload: Reload,
    pub tunable: RwLock<Tunable>,
    /// Whether ended sessions may hold something still, because somebody had it locked: the next poll asks for it again.
    pub unfreed: AtomicBool,
    /// Of the machine, so it outlives a session.
    pub start_pause: Mutex<StartBackoff>,
}

/// How the configuration is read again.
pub type Reload = Box<dyn Fn() -> Result<AgentConfig, String> + Send + Sync>;

impl Context {
    pub(crate) fn start_pause(&self) -> MutexGuard<'_, StartBackoff> {
        self.start_pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of the configuration that may change while the agent runs.
    pub(crate) fn tunable(&self) -> Tunable {
        let configured = self.tunable.read().unwrap_or_else(PoisonError::into_inner);
        let mut tunable = configured.clone();
        // Of this session, whatever address a configuration that was read again has.
        let address = self.config.address.clone();
        tunable.labels.insert(NODE_LABEL.to_owned(), address);
        tunable
    }

    /// What this node says about itself when it opens a session under `incarnation`.
    pub(crate) fn node_info(&self, incarnation: Uuid) -> NodeInfo {
        let (config, tunable) = (&self.config, self.tunable());
        let last = self.memory.latest().filter(|m| m.address == config.address);
        NodeInfo {
            address: config.address.clone(),
            name: config.node_name.clone(),
            incarnation,
            ttl: config.lease_ttl,
            slots: i32::try_from(tunable.slots).unwrap_or(i32::MAX),
            labels: json!(tunable.labels),
            version: release::version().to_owned(),
            last_session: last.map_or(0, |m| m.session),
            machine: farmhand_os::machine::identity(),
        }
    }
}
