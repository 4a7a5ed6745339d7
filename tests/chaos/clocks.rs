//! Wall clocks that are wrong, and that jump: no lease may notice.

use std::path::{Path, PathBuf};
use std::time::Duration;

use farmhand_tests::faketime::following;
use farmhand_tests::farm::{Farm, SOON, TAKEOVER};
use farmhand_tests::pg::{Options, PrivateServer};
use farmhand_tests::witness::boot_ns;

const JOBS: &str = "
    [job.long]
    command = [WITNESS, '4000']
    [job.short]
    command = [WITNESS, '100']
    [job.tick]
    schedule = '* * * * * *'
    overlap = 'allow'
    command = [WITNESS, '20']
";

/// Read anew at every look at the clock.
fn clock(file: &Path) -> Vec<(String, String)> {
    following(file, ("FAKETIME_NO_CACHE", "1"))
}

fn set(file: &Path, offset: &str) {
    // Never half a line.
    let new = file.with_extension("new");
    std::fs::write(&new, format!("{offset}\n")).expect("the clock's file");
    std::fs::rename(&new, file).expect("the clock's file");
}

struct Clocks {
    _dir: tempfile::TempDir,
    files: Vec<PathBuf>,
}

impl Clocks {
    fn new(offsets: &[&str]) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir_in("/tmp").expect("a temporary directory");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let file = |n| dir.path().join(format!("clock{n}"));
        let files: Vec<PathBuf> = (0..offsets.len()).map(file).collect();
        for (file, offset) in files.iter().zip(offsets) {
            set(file, offset);
        }
        Self { _dir: dir, files }
    }
}

async fn farm_with(clocks: &Clocks) -> Farm {
    let mut farm = Farm::new().agents(2).jobs(JOBS).prepare().await;
    for (agent, file) in farm.agents.iter_mut().zip(&clocks.files) {
        agent.env.extend(clock(file));
        agent.start().await;
    }
    farm
}

async fn passes_over(farm: &mut Farm) {
    let long = farm.submit("long").await;
    let home = farm.lives(long, 1).await.running_at.expect("a node");
    let killed = boot_ns();
    farm.agent(&home).kill_with_wardens();
    farm.lives(long, 2).await;
    let delay = Duration::from_nanos(farm.witness.life(long, 2).first - killed);
    assert!(delay <= TAKEOVER, "{delay:?}");
    farm.agent(&home).start().await;
    farm.succeeds(long).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_an_hour_off_in_both_directions_take_over_in_time_and_not_before() {
    let clocks = Clocks::new(&["+3600", "-3600"]);
    let mut farm = farm_with(&clocks).await;
    farm.eventually("the clocks are wrong", SOON, async || {
        let ahead = farm.agents[0]
            .metric("farmhand_db_clock_offset_seconds", &[])
            .await;
        let behind = farm.agents[1]
            .metric("farmhand_db_clock_offset_seconds", &[])
            .await;
        let wrong = ahead < -3500.0 && behind > 3500.0;
        wrong.then_some(()).ok_or_else(|| format!("{ahead} {behind}"))
    })
    .await;
    farm.first_run("tick").await;
    let long = farm.submit("long").await;
    assert_eq!(farm.succeeds(long).await.attempt, 1);
    assert_eq!(
        farm.events("expired").await + farm.events("lease_lapsed").await,
        0
    );
    passes_over(&mut farm).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_whose_clocks_jump_keep_their_leases_and_runs() {
    let clocks = Clocks::new(&["+0", "+0"]);
    let mut farm = farm_with(&clocks).await;
    for offset in ["+3600", "-3600", "+86400", "+0"] {
        let long = farm.submit("long").await;
        farm.lives(long, 1).await;
        set(&clocks.files[0], offset);
        set(&clocks.files[1], if offset == "+3600" { "-3600" } else { offset });
        let short = farm.submit("short").await;
        assert_eq!(farm.succeeds(short).await.attempt, 1);
        assert_eq!(farm.succeeds(long).await.attempt, 1);
    }
    let lost =
        farm.events("expired").await + farm.events("lease_lapsed").await + farm.events("fence_kill").await;
    assert_eq!(lost, 0);
    let runs = farm.runs("tick").await;
    assert!(runs.iter().all(|r| r.attempt <= 1), "{runs:?}");
    passes_over(&mut farm).await;
    farm.check().await;
}

/// The gauges are read by the timetable that keeps everything else in order, too.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_clock_was_a_day_ahead_keeps_its_timetable_when_it_is_set() {
    let clocks = Clocks::new(&["+86400"]);
    let mut farm = Farm::new().agents(1).prepare().await;
    farm.agents[0].env.extend(clock(&clocks.files[0]));
    farm.agents[0].start().await;
    let name = "farmhand_farm_snapshot_timestamp_seconds";
    for offset in ["+86400", "+0", "+3600", "-3600"] {
        set(&clocks.files[0], offset);
        let since: f64 = farm
            .value("SELECT extract(epoch FROM clock_timestamp())::float8")
            .await;
        farm.eventually("the gauges go on", SOON, async || {
            match farm.agents[0].metric(name, &[]).await {
                at if at > since => Ok(()),
                at => Err(format!("{since} {at} at {offset}")),
            }
        })
        .await;
    }
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_clock_is_wrong_and_jumps_ends_no_lease() {
    let clocks = Clocks::new(&["+3600"]);
    let server = PrivateServer::start(Options {
        env: clock(&clocks.files[0]),
        ..Options::default()
    })
    .await;
    let mut farm = Farm::new().agents(2).on(server).jobs(JOBS).start().await;
    let ahead: f64 = farm
        .value("SELECT extract(epoch FROM clock_timestamp())::float8")
        .await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    assert!(ahead - now.as_secs_f64() > 3000.0, "the clock is not wrong");
    for offset in ["-3600", "+7200", "+3600"] {
        let long = farm.submit("long").await;
        farm.lives(long, 1).await;
        set(&clocks.files[0], offset);
        let short = farm.submit("short").await;
        assert_eq!(farm.succeeds(short).await.attempt, 1, "after a jump to {offset}");
        assert_eq!(farm.succeeds(long).await.attempt, 1, "after a jump to {offset}");
    }
    let lost =
        farm.events("expired").await + farm.events("lease_lapsed").await + farm.events("fence_kill").await;
    assert_eq!(lost, 0);
    let tick = farm.runs("tick").await.len();
    set(&clocks.files[0], "+7300");
    farm.eventually("the schedule goes on", SOON, async || {
        match farm.runs("tick").await.len() {
            n if n > tick => Ok(()),
            n => Err(format!("{n} runs")),
        }
    })
    .await;
    passes_over(&mut farm).await;
    farm.check().await;
}
