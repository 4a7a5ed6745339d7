//! Schema versions: numbered SQL, each committed together with its number and checksum.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;

use super::config::DbConfig;
use super::db::{Db, Stmt, Transaction, stmt};
use super::error::StoreError;
use super::partitions;
use super::roles::{self, Roles};

/// A DDL statement may wait for locks and rewrite tables.
const LIMIT: Duration = Duration::from_secs(600);

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub version: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// Every step this binary knows, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "foundation",
        sql: include_str!("../../migrations/0001_foundation.sql"),
    },
    Migration {
        version: 2,
        name: "boot",
        sql: include_str!("../../migrations/0002_boot.sql"),
    },
    Migration {
        version: 3,
        name: "task",
        sql: include_str!("../../migrations/0003_task.sql"),
    },
    Migration {
        version: 4,
        name: "drain",
        sql: include_str!("../../migrations/0004_drain.sql"),
    },
    Migration {
        version: 5,
        name: "continuous",
        sql: include_str!("../../migrations/0005_continuous.sql"),
    },
    Migration {
        version: 6,
        name: "snapshot",
        sql: include_str!("../../migrations/0006_snapshot.sql"),
    },
    Migration {
        version: 7,
        name: "gates",
        sql: include_str!("../../migrations/0007_gates.sql"),
    },
    Migration {
        version: 8,
        name: "table",
        sql: include_str!("../../migrations/0008_table.sql"),
    },
    Migration {
        version: 9,
        name: "triggers",
        sql: include_str!("../../migrations/0009_triggers.sql"),
    },
    Migration {
        version: 10,
        name: "progress",
        sql: include_str!("../../migrations/0010_progress.sql"),
    },
    Migration {
        version: 11,
        name: "params",
        sql: include_str!("../../migrations/0011_params.sql"),
    },
    Migration {
        version: 12,
        name: "spread",
        sql: include_str!("../../migrations/0012_spread.sql"),
    },
    Migration {
        version: 13,
        name: "notify",
        sql: include_str!("../../migrations/0013_notify.sql"),
    },
    Migration {
        version: 14,
        name: "stream",
        sql: include_str!("../../migrations/0014_stream.sql"),
    },
    Migration {
        version: 15,
        name: "api",
        sql: include_str!("../../migrations/0015_api.sql"),
    },
    Migration {
        version: 16,
        name: "reading",
        sql: include_str!("../../migrations/0016_reading.sql"),
    },
    Migration {
        version: 17,
        name: "trust",
        sql: include_str!("../../migrations/0017_trust.sql"),
    },
    Migration {
        version: 18,
        name: "performance",
        sql: include_str!("../../migrations/0018_performance.sql"),
    },
    Migration {
        version: 19,
        name: "roles",
        sql: include_str!("../../migrations/0019_roles.sql"),
    },
    Migration {
        version: 20,
        name: "clock",
        sql: include_str!("../../migrations/0020_clock.sql"),
    },
    Migration {
        version: 21,
        name: "refusals",
        sql: include_str!("../../migrations/0021_refusals.sql"),
    },
    Migration {
        version: 22,
        name: "pages",
        sql: include_str!("../../migrations/0022_pages.sql"),
    },
    Migration {
        version: 23,
        name: "param_size",
        sql: include_str!("../../migrations/0023_param_size.sql"),
    },
    Migration {
        version: 24,
        name: "trim",
        sql: include_str!("../../migrations/0024_trim.sql"),
    },
    Migration {
        version: 25,
        name: "deferred",
        sql: include_str!("../../migrations/0025_deferred.sql"),
    },
];

/// A step as the database remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub version: i32,
    pub name: String,
    pub checksum: String,
    pub applied_at: Timestamp,
}

impl Migration {
    /// SHA-256 of the text, in hex.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql.as_bytes())
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }
}

/// The version this binary needs.
pub fn current_version() -> i32 {
    MIGRATIONS.last().map_or(0, |m| m.version)
}

/// Brings the schema to this binary's version and returns what was applied now. Several at once wait
/// for each other; each step is one transaction, so that an interrupted migration is simply repeated.
///
/// # Errors
/// The database is away, denies it, is of a newer version, or a step fails.
pub async fn migrate(config: &DbConfig) -> Result<Vec<Applied>, StoreError> {
    migrate_roles(config, None).await.map(|(done, _)| done)
}

/// `migrate`, and what became of the roles, whose names begin with `prefix`: with that of before when none is given.
///
/// # Errors
/// As [`migrate`], and for a prefix that cannot begin a role's name.
pub async fn migrate_roles(
    config: &DbConfig,
    prefix: Option<&str>,
) -> Result<(Vec<Applied>, Roles), StoreError> {
    if let Some(given) = prefix.filter(|p| !roles::is_prefix(p)) {
        return Err(StoreError::Config(format!(
            "{given:?} cannot begin the names of roles: at most 40 of a-z, 0-9 and _, not beginning with a digit"
        )));
    }
    let db = Db::new(&config.clone().with_timeouts(LIMIT, config.connect_timeout));
    let mut tx = begin(&db, prefix).await?;
    let prefix = match prefix {
        Some(prefix) => prefix.to_owned(),
        None => roles::prefix(&mut tx)
            .await?
            .unwrap_or_else(|| roles::PREFIX.to_owned()),
    };
    tx.commit().await?;
    let made = roles::make(&db, &prefix).await?;
    let done = migrate_with(config, MIGRATIONS).await?;
    let mut tx = begin(&db, Some(&prefix)).await?;
    roles::grant(&mut tx, &prefix).await?;
    tx.commit().await?;
    Ok((done, made))
}

/// `migrate` with other steps than the binary's own; for tests.
pub async fn migrate_with(config: &DbConfig, steps: &[Migration]) -> Result<Vec<Applied>, StoreError> {
    let db = Db::new(&config.clone().with_timeouts(LIMIT, config.connect_timeout));
    let mut tx = begin(&db, None).await?;
    tx.batch(include_str!("sql/migrate_prepare.sql")).await?;
    tx.commit().await?;

    let mut done = Vec::new();
    for step in steps {
        let mut tx = begin(&db, None).await?;
        let applied: Vec<Applied> = tx.rows(stmt!("migrate_applied"), &[]).await?;
        verify(&applied, steps)?;
        if applied.iter().any(|a| a.version == step.version) {
            tx.commit().await?;
            continue;
        }
        tx.batch(step.sql).await.map_err(|e| name_step(e, step))?;
        let record: Option<Applied> = tx
            .row(
                stmt!("migrate_record"),
                &[
                    (&step.version, Type::INT4),
                    (&step.name, Type::TEXT),
                    (&step.checksum(), Type::TEXT),
                ],
            )
            .await?;
        tx.commit().await?;
        done.extend(record);
    }
    partitions::ensure_partitions(&db, partitions::AHEAD).await?;
    Ok(done)
}

/// A transaction that alone migrates, as the schema's owner where the login is a member of that role, and that takes
/// nothing from the login's search_path.
async fn begin(db: &Db, prefix: Option<&str>) -> Result<Transaction, StoreError> {
    let mut tx = db.transaction_within("migrate", LIMIT).await?;
    tx.batch(include_str!("sql/migrate_lock.sql")).await?;
    if let Some(owner) = roles::owner_to_be(&mut tx, prefix.unwrap_or(roles::PREFIX)).await? {
        tx.batch(&roles::become_owner(&owner)).await?;
    }
    Ok(tx)
}

/// Compares the database's schema with what this binary was built for.
pub async fn check(db: &Db) -> Result<(), StoreError> {
    let applied = applied(db).await?;
    verify(&applied, MIGRATIONS)?;
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

fn verify(applied: &[Applied], steps: &[Migration]) -> Result<(), StoreError> {
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

fn name_step(error: StoreError, step: &Migration) -> StoreError {
    match error {
        StoreError::Sql { op, code, message } => StoreError::Sql {
            op,
            code,
            message: format!("migration {} ({}): {message}", step.version, step.name),
        },
        other => other,
    }
}
