//! The version of the schema: what this binary needs, and what a database has.

use std::sync::OnceLock;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::db::Db;
use super::error::StoreError;
use super::statement::{Stmt, stmt};

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number; they are applied in order.
    pub version: i32,
    /// What it does, in a word or two.
    pub name: &'static str,
    /// The statements, as they are executed.
    pub sql: &'static str,
}

static STEPS: OnceLock<Vec<Migration>> = OnceLock::new();

/// Every step of this release, in order. Nothing has been released: what version 1 makes is changed in its files.
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "schema",
    sql: SCHEMA,
}];

/// A file per topic, each after those that it leans on.
pub(crate) const SCHEMA: &str = concat!(
    include_str!("../schema/node.sql"),
    include_str!("../schema/job.sql"),
    include_str!("../schema/run.sql"),
    include_str!("../schema/event.sql"),
    include_str!("../schema/log.sql"),
    include_str!("../schema/history.sql"),
    include_str!("../schema/trust.sql"),
    include_str!("../schema/gate.sql"),
    include_str!("../schema/table.sql"),
    include_str!("../schema/trigger.sql"),
    include_str!("../schema/flow.sql"),
    include_str!("../schema/stream.sql"),
    include_str!("../schema/progress.sql"),
    include_str!("../schema/submit.sql"),
    include_str!("../schema/notify.sql"),
    include_str!("../schema/fire.sql"),
    include_str!("../schema/end.sql"),
    include_str!("../schema/audit.sql"),
    include_str!("../schema/api.sql"),
    include_str!("../schema/partition.sql"),
    include_str!("../schema/role.sql"),
    include_str!("../schema/lease.sql"),
    include_str!("../schema/view.sql"),
);

/// A step as the database remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub version: i32,
    /// What it does, in a word or two.
    pub name: String,
    /// A hash of its statements; another one means that this binary has other ones.
    pub checksum: String,
    pub applied_at: Timestamp,
}

impl Migration {
    /// SHA-256 of the text, in hex.
    pub fn checksum(&self) -> String {
        hex::encode(Sha256::digest(self.sql.as_bytes()))
    }
}

/// For a program that is made of these crates and is another release. To be called before anything else.
pub fn has_steps(steps: Vec<Migration>) {
    let _ = STEPS.set(steps);
}

/// Every step this binary knows, in order.
pub(crate) fn steps() -> &'static [Migration] {
    STEPS.get().map_or(MIGRATIONS, Vec::as_slice)
}

/// The version this binary needs.
pub fn current_version() -> i32 {
    steps().last().map_or(0, |m| m.version)
}

/// Compares the database's schema with what this binary was built for.
pub async fn check(db: &Db) -> Result<(), StoreError> {
    let applied = applied(db).await.map_err(|error| match error {
        // Whoever may use the schema and not read it is a submitter.
        StoreError::Forbidden { why, fix } if why.contains("schema_version") => StoreError::Forbidden {
            why: "this login may not read the farm, only submit (SELECT farmhand.submit('JOB')) and lock"
                .to_owned(),
            fix,
        },
        other => other,
    })?;
    verify(&applied, steps())?;
    let (have, need) = (newest(&applied), current_version());
    if have < need {
        return Err(if have == 0 {
            StoreError::SchemaMissing
        } else {
            StoreError::SchemaTooOld {
                db: have,
                binary: need,
            }
        });
    }
    Ok(())
}

/// The steps the database has.
pub async fn applied(db: &Db) -> Result<Vec<Applied>, StoreError> {
    const APPLIED: Stmt = stmt!("migrate_applied");
    db.rows(APPLIED, &[]).await
}

fn newest(applied: &[Applied]) -> i32 {
    applied.iter().map(|a| a.version).max().unwrap_or(0)
}

pub(crate) fn verify(applied: &[Applied], steps: &[Migration]) -> Result<(), StoreError> {
    let binary = steps.last().map_or(0, |m| m.version);
    let db = newest(applied);
    if db > binary {
        return Err(StoreError::SchemaTooNew { db, binary });
    }
    for have in applied {
        let same = steps
            .iter()
            .any(|s| s.version == have.version && s.checksum() == have.checksum);
        if !same {
            return Err(StoreError::MigrationChanged {
                version: have.version,
                name: have.name.clone(),
            });
        }
    }
    Ok(())
}
