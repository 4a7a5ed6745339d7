//! The agent's own timetable: retention, partitions, sweeps, gauges. Users' jobs never go through here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use farmhand_common::store::partitions::{self, Retention};
use farmhand_common::store::{StoreError, protocol};
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use xxhash_rust::xxh3::xxh3_64;

use crate::events::Event;
use crate::session::Context;
use crate::snapshot::{self, Snapshots};

/// The scheduler's event channels must hold a tick of every job at once.
const CHANNEL: usize = 64;

/// How long an each-node run waits for a node that has closed or died.
const GONE_FOR: Duration = Duration::from_secs(3600);

/// The running timetable.
pub struct Housekeeper {
    scheduler: JobScheduler,
    /// None where nobody could fetch them.
    snapshots: Option<Arc<Snapshots>>,
}

impl Housekeeper {
    pub async fn stop(mut self, ctx: &Context) {
        if let Err(e) = self.scheduler.shutdown().await {
            tracing::debug!("housekeeping did not stop: {e}");
        }
        if let Some(snapshots) = self.snapshots {
            // Others take it over by themselves when the database is away.
            let _ = tokio::time::timeout(Duration::from_secs(1), snapshots.release(&ctx.db)).await;
        }
    }
}

/// Starts the timetable. Every agent keeps it; each at seconds of its own, so that the farm does not
/// come all at once. All of it may be done twice, or late, without harm.
///
/// # Errors
/// When the scheduler cannot be started.
pub async fn start(ctx: Arc<Context>) -> Result<Housekeeper, JobSchedulerError> {
    let scheduler = JobScheduler::new_with_channel_size(CHANNEL).await?;
    let own = xxh3_64(ctx.config.address.as_bytes());
    let (second, minute) = (own % 60, own / 60 % 60);
    let timetable: [(String, &'static str, Task); 4] = [
        (format!("{second} * * * * *"), "sweep", sweep),
        (
            format!("{second} {minute} * * * *"),
            "partitions",
            ensure_partitions,
        ),
        (
            format!("{second} {} * * * *", (minute + 20) % 60),
            "retention",
            drop_old,
        ),
        (
            format!("{} * * * * *", (second + 30) % 60),
            "gauges",
            refresh_gauges,
        ),
    ];
    for (when, name, task) in timetable {
        let ctx = ctx.clone();
        let job = Job::new_async(when.as_str(), move |_, _| {
            let ctx = ctx.clone();
            Box::pin(async move {
                let error = task(ctx.clone()).await.err().map(|e| e.to_string());
                ctx.events.emit(Event::Housekeeping { task: name, error });
            })
        })?;
        scheduler.add(job).await?;
    }
    let snapshots = ctx.config.listen.map(|_| {
        let metrics = ctx.events.metrics.clone();
        Arc::new(Snapshots::new(
            &ctx.config.address,
            ctx.config.snapshot_every,
            metrics,
        ))
    });
    if let Some(snapshots) = snapshots.clone() {
        let when = snapshot::timetable(ctx.config.snapshot_every, own);
        let job = Job::new_async(when.as_str(), move |_, _| {
            let (ctx, snapshots) = (ctx.clone(), snapshots.clone());
            Box::pin(async move {
                let error = snapshots.run_once(&ctx.db).await.err().map(|e| e.to_string());
                ctx.events.emit(Event::Housekeeping {
                    task: "snapshot",
                    error,
                });
            })
        })?;
        scheduler.add(job).await?;
    }
    scheduler.start().await?;
    Ok(Housekeeper { scheduler, snapshots })
}

/// What people did is kept for a year and a month, or for as long as the runs where that is longer.
const AUDIT_DAYS: i32 = 396;

type Task = fn(Arc<Context>) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

fn sweep(ctx: Arc<Context>) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>> {
    Box::pin(async move {
        let left = protocol::left_over(&ctx.db, GONE_FOR).await?;
        if left.to_sweep {
            let freed = protocol::sweep(&ctx.db).await?;
            if !freed.is_empty() {
                ctx.events.emit(Event::Swept { freed: freed.len() });
            }
        }
        if left.to_abandon {
            let abandoned = protocol::abandon(&ctx.db, GONE_FOR).await?;
            if abandoned > 0 {
                ctx.events.emit(Event::Abandoned { runs: abandoned });
            }
        }
        Ok(())
    })
}

fn ensure_partitions(ctx: Arc<Context>) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>> {
    Box::pin(async move {
        partitions::ensure_partitions(&ctx.db, partitions::AHEAD)
            .await
            .map(|_| ())
    })
}

fn drop_old(ctx: Arc<Context>) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>> {
    Box::pin(async move {
        {
            let days = i32::try_from(ctx.tunable().retention.as_secs() / 86_400)
                .unwrap_or(i32::MAX)
                .max(1);
            let default = Retention::default();
            let retention = Retention {
                runs: days,
                logs: default.logs.min(days),
                events: default.events.min(days),
            };
            farmhand_common::store::tasks::drop_older_than(&ctx.db, days).await?;
            farmhand_common::store::audit::forget(&ctx.db, AUDIT_DAYS.max(days)).await?;
            farmhand_common::store::streams::drop_older_than(&ctx.db, days).await?;
            farmhand_common::store::tables::drop_older_than(&ctx.db, days).await?;
            farmhand_common::store::progress::drop_older_than(&ctx.db, days).await?;
            farmhand_common::store::notify::drop_older_than(&ctx.db, days).await?;
            partitions::drop_older_than(&ctx.db, retention).await.map(|_| ())
        }
    })
}

fn refresh_gauges(ctx: Arc<Context>) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>> {
    Box::pin(async move {
        let pool = ctx.db.gauge();
        ctx.events.metrics.connections(pool.idle, pool.used);
        Ok(())
    })
}
