//! The agent's own timetable: retention, partitions, sweeps, gauges. Users' jobs never go through here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use farmhand_store::retention::{self, Retention};
use farmhand_store::{StoreError, partitions, protocol};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use xxhash_rust::xxh3::xxh3_64;

use crate::context::Context;
use crate::session::skips;
use farmhand_os::clock::boot_now;
use farmhand_telemetry::events::Event;
use farmhand_telemetry::snapshot::{self, Snapshots};

/// The scheduler's event channels must hold a tick of every job at once.
const CHANNEL: usize = 64;

/// How long an each-node run waits for a node that has closed or died.
const GONE_FOR: Duration = Duration::from_secs(3600);

/// The timetable goes by the wall clock: whether that was set is looked at this often.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(5);

/// A step of less than this delays nothing by much.
const STEP: Duration = Duration::from_secs(5);

pub(crate) struct Housekeeper {
    stop: oneshot::Sender<()>,
    lease: JoinHandle<()>,
    /// None where nobody could fetch them.
    snapshots: Option<Arc<Snapshots>>,
}

impl Housekeeper {
    pub(crate) async fn stop(self, ctx: &Context) {
        let _ = self.stop.send(());
        if let Err(e) = self.lease.await {
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
pub(crate) async fn start(ctx: Arc<Context>) -> Result<Housekeeper, JobSchedulerError> {
    let snapshots = ctx.config.listen.map(|_| {
        let metrics = ctx.events.metrics.clone();
        Arc::new(Snapshots::new(
            &ctx.config.address,
            ctx.config.snapshot_every(),
            metrics,
        ))
    });
    let (stop, stopped) = oneshot::channel();
    let first = timetable(&ctx, snapshots.as_ref()).await?;
    let lease = tokio::spawn(keep(ctx, snapshots.clone(), first, stopped));
    Ok(Housekeeper {
        stop,
        lease,
        snapshots,
    })
}

/// Lets the timetable run until `stopped`, and makes it anew when somebody has set the clock: the scheduler waits for
/// instants, which a clock that was ahead leaves in the future for as long as it was.
async fn keep(
    ctx: Arc<Context>,
    snapshots: Option<Arc<Snapshots>>,
    first: JobScheduler,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut running = Some(first);
    let mut offset = wall_offset();
    loop {
        let stopping = tokio::select! {
            _ = &mut stopped => true,
            () = tokio::time::sleep(LOOK_AT_CLOCK) => false,
        };
        let now = wall_offset();
        if !stopping && running.is_some() && now.abs_diff(offset) < STEP.as_nanos() {
            continue;
        }
        if let Some(mut scheduler) = running.take()
            && let Err(e) = scheduler.shutdown().await
        {
            tracing::debug!("housekeeping did not stop: {e}");
        }
        if stopping {
            return;
        }
        offset = now;
        match timetable(&ctx, snapshots.as_ref()).await {
            Ok(scheduler) => running = Some(scheduler),
            Err(e) => tracing::warn!("housekeeping does not start again: {e}"),
        }
    }
}

/// The wall clock beside the one that never steps, in nanoseconds.
fn wall_offset() -> i128 {
    jiff::Timestamp::now().as_nanosecond() - i128::from(boot_now().0)
}

async fn timetable(
    ctx: &Arc<Context>,
    snapshots: Option<&Arc<Snapshots>>,
) -> Result<JobScheduler, JobSchedulerError> {
    let scheduler = JobScheduler::new_with_channel_size(CHANNEL).await?;
    let own = xxh3_64(ctx.config.address.as_bytes());
    let (second, minute) = (own % 60, own / 60 % 60);
    let each_minute = |second: u64| format!("{} * * * * *", second % 60);
    let each_hour = |minute: u64| format!("{second} {} * * * *", minute % 60);
    let s = &scheduler;
    add(s, ctx, each_minute(second), "sweep", sweep).await?;
    add(s, ctx, each_hour(minute), "partitions", ensure_partitions).await?;
    add(s, ctx, each_hour(minute + 20), "retention", drop_old).await?;
    add(s, ctx, each_minute(second + 30), "gauges", refresh_gauges).await?;
    if let Some(snapshots) = snapshots {
        let (snapshots, when) = (
            snapshots.clone(),
            snapshot::timetable(ctx.config.snapshot_every(), own),
        );
        let expose = move |ctx| expose(ctx, snapshots.clone());
        add(s, ctx, when, "snapshot", expose).await?;
    }
    scheduler.start().await?;
    Ok(scheduler)
}

/// Has `task` done at these instants, and says how it went.
async fn add<T, Done>(
    scheduler: &JobScheduler,
    ctx: &Arc<Context>,
    when: String,
    name: &'static str,
    task: T,
) -> Result<(), JobSchedulerError>
where
    T: Fn(Arc<Context>) -> Done + Send + Sync + 'static,
    Done: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    let ctx = ctx.clone();
    let job = Job::new_async(when.as_str(), move |_, _| {
        let (ctx, done) = (ctx.clone(), task(ctx.clone()));
        Box::pin(async move {
            let error = done.await.err().map(|e| e.to_string());
            ctx.events.emit(Event::Housekeeping { task: name, error });
        })
    })?;
    scheduler.add(job).await.map(drop)
}

/// Each hour retention deletes for so long at the most.
const FORGETS_FOR: Duration = Duration::from_secs(300);

async fn sweep(ctx: Arc<Context>) -> Result<(), StoreError> {
    let left = protocol::left_over(&ctx.db, GONE_FOR).await?;
    if left.to_sweep() {
        // The next poll looks whether somebody had some of it locked.
        ctx.unfreed.fetch_or(left.to_free, Ordering::Relaxed);
        let freed = protocol::sweep(&ctx.db).await?;
        if !freed.is_empty() {
            ctx.events.emit(Event::Swept { freed: freed.len() });
        }
    }
    if left.to_write {
        ctx.row_bell.ring();
    }
    if left.too_late {
        let ended = protocol::end_late(&ctx.db).await?;
        skips(&ended).for_each(|event| ctx.events.emit(event));
    }
    if left.to_abandon {
        let abandoned = protocol::abandon(&ctx.db, GONE_FOR).await?;
        if abandoned > 0 {
            ctx.events.emit(Event::Abandoned { runs: abandoned });
        }
    }
    Ok(())
}

async fn ensure_partitions(ctx: Arc<Context>) -> Result<(), StoreError> {
    let made = partitions::ensure_partitions(&ctx.db, partitions::AHEAD).await;
    made.map(drop)
}

async fn drop_old(ctx: Arc<Context>) -> Result<(), StoreError> {
    let days = ctx.tunable().retention.as_secs() / 86_400;
    let days = i32::try_from(days).unwrap_or(i32::MAX).max(1);
    let default = Retention::default();
    let kept = Retention {
        runs: days,
        logs: default.logs.min(days),
        events: default.events.min(days),
    };
    retention::forget(&ctx.db, kept, FORGETS_FOR).await
}

async fn refresh_gauges(ctx: Arc<Context>) -> Result<(), StoreError> {
    let pool = ctx.db.gauge();
    ctx.events.metrics.connections(pool.idle, pool.used);
    Ok(())
}

async fn expose(ctx: Arc<Context>, snapshots: Arc<Snapshots>) -> Result<(), StoreError> {
    if let Some(exposed) = snapshots.run_once(&ctx.db, ctx.wake.can_watch()).await? {
        exposed
            .events
            .into_iter()
            .for_each(|event| ctx.events.emit(event));
        if exposed.watch.is_some() {
            ctx.wake.watch(exposed.watch);
        }
    }
    Ok(())
}
