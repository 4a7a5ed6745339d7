//! Schema versions: numbered SQL, each committed together with its number and checksum.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::config::DbConfig;
use super::db::{Db, Transaction, stmt};
use super::error::StoreError;
use super::partitions;
use super::roles::{self, Roles};
pub use super::version::{Applied, MIGRATIONS, Migration, applied, check, current_version, has_steps};
use super::version::{steps, verify};

/// A DDL statement may rewrite tables, and a step may have to wait for who uses them.
const LIMIT: Duration = Duration::from_secs(600);
/// After a step gave way: agents that waited behind it do meanwhile what they have to.
const PAUSE: Duration = Duration::from_secs(1);

/// In others a text is cut within a character (SQL_ASCII), or does not hold every character (LATIN1).
pub const ENCODING: &str = "UTF8";

/// Brings the schema to this binary's version and returns what was applied now. Several at once wait
/// for each other; each step is one transaction, so that an interrupted migration is simply repeated. A step that does not
/// get a lock at once is repeated, too: whoever asks for the same table waits behind it, and renewals must not wait long.
/// Errors: The database is away, denies it, is of a newer version, or a step fails.
pub async fn migrate(config: &DbConfig) -> Result<Vec<Applied>, StoreError> {
    migrate_roles(config, None).await.map(|(done, _)| done)
}

/// `migrate`, and what became of the roles, whose names begin with `prefix`: with that of before when none is given.
/// Errors: As [`migrate`], and for a prefix that cannot begin a role's name.
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
    let encoding: Option<(String,)> = tx.row(stmt!("migrate_encoding"), &[]).await?;
    if let Some((other,)) = encoding.filter(|(encoding,)| encoding != ENCODING) {
        return Err(StoreError::NotReady {
            why: format!("the database's encoding is {other}, and the schema needs {ENCODING}"),
            fix: "as an administrator, make another database and name that one in the URL: CREATE DATABASE … OWNER … \
                  ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0"
                .to_owned(),
        });
    }
    let prefix = match prefix {
        Some(prefix) => prefix.to_owned(),
        None => roles::prefix(&mut tx)
            .await?
            .unwrap_or_else(|| roles::PREFIX.to_owned()),
    };
    tx.commit().await?;
    let made = roles::make(&db, &prefix).await?;
    let done = migrate_with(config, steps()).await?;
    let mut tx = begin(&db, Some(&prefix)).await?;
    // A newer binary may have migrated meanwhile; the rights that it gave are not for this one to take away.
    verify(&tx.rows::<Applied>(stmt!("migrate_applied"), &[]).await?, steps())?;
    roles::grant(&mut tx, &prefix).await?;
    tx.commit().await?;
    Ok((done, made))
}

/// `migrate` with other steps than the binary's own; for tests.
pub async fn migrate_with(config: &DbConfig, steps: &[Migration]) -> Result<Vec<Applied>, StoreError> {
    let db = Db::new(&config.clone().with_timeouts(LIMIT, config.connect_timeout));
    let (mut done, until) = (Vec::new(), Instant::now() + LIMIT);
    while let Err(error) = prepare(&db).await {
        if !made_meanwhile(&error) || Instant::now() > until {
            return Err(error);
        }
    }
    for step in steps {
        let record = loop {
            match take(&db, steps, step).await {
                Err(error) if gave_way(&error) => {
                    if Instant::now() > until {
                        return Err(in_use(step));
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                taken => break taken?,
            }
        };
        done.extend(record);
    }
    partitions::ensure_partitions(&db, partitions::AHEAD).await?;
    Ok(done)
}

async fn prepare(db: &Db) -> Result<(), StoreError> {
    let mut tx = begin(db, None).await?;
    tx.batch(include_str!("sql/migrate_prepare.sql")).await?;
    tx.commit().await
}

/// Whether another migration made the schema or its first table in the same moment. It is there now.
fn made_meanwhile(error: &StoreError) -> bool {
    matches!(error, StoreError::Sql { code, .. } if matches!(code.as_str(), "23505" | "42P06" | "42P07"))
}

/// None: the database has it already.
async fn take(db: &Db, steps: &[Migration], step: &Migration) -> Result<Option<Applied>, StoreError> {
    let mut tx = begin(db, None).await?;
    let applied: Vec<Applied> = tx.rows(stmt!("migrate_applied"), &[]).await?;
    verify(&applied, steps)?;
    if applied.iter().any(|a| a.version == step.version) {
        tx.commit().await?;
        return Ok(None);
    }
    tx.batch(include_str!("sql/migrate_gives_way.sql")).await?;
    tx.batch(step.sql).await.map_err(|e| name_step(e, step))?;
    let record = tx
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
    Ok(record)
}

/// Whether a step was given up for others that use its tables: it waited too long for a lock, or was in a deadlock.
fn gave_way(error: &StoreError) -> bool {
    matches!(error, StoreError::Sql { code, .. } if code == "55P03" || code == "40P01")
}

/// A transaction that alone migrates, as the schema's owner where the login is a member of that role, and that takes
/// nothing from the login's search_path.
async fn begin(db: &Db, prefix: Option<&str>) -> Result<Transaction, StoreError> {
    let mut tx = db.transaction_within("migrate", LIMIT).await?;
    tx.batch("SET LOCAL search_path = pg_catalog, pg_temp").await?;
    if let Some(owner) = roles::owner_to_be(&mut tx, prefix.unwrap_or(roles::PREFIX)).await? {
        tx.batch(&roles::become_owner(&owner)).await?;
    }
    tx.batch(include_str!("sql/migrate_lock.sql")).await?;
    Ok(tx)
}

fn in_use(step: &Migration) -> StoreError {
    StoreError::NotReady {
        why: format!(
            "migration {} ({}) gave way for {} minutes to transactions that use its tables",
            step.version,
            step.name,
            LIMIT.as_secs() / 60
        ),
        fix: "let a dump end, end what pg_stat_activity shows as idle in transaction, then run `farmhand migrate` again"
            .to_owned(),
    }
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
