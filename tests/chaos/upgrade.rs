//! Two releases in one farm: the binary that ships, and `farmhand-next`, whose schema has one more step that gives each
//! table another column. What is shown here stands in docs/reference/versions.md.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use farmhand_core::release;
use farmhand_tests::bin::farmhand;
use farmhand_tests::farm::{Agent, Farm, FarmBuilder, Run, SOON};
use farmhand_tests::next;
use tokio::process::Command;

/// Nothing here waits for the end of such a lease: longer than an agent takes to start on any machine.
const LONG: Duration = Duration::from_secs(60);

const JOBS: &str = "
    [job.long]
    run_on = 'each-node'
    command = [WITNESS, 'until=@DIR@/let-go']
    [job.short]
    command = [WITNESS, '50']
    [job.tick]
    schedule = '* * * * * *'
    catch_up.runs = 'all'
    overlap = 'allow'
    command = [WITNESS, '20']
";

/// As units of systemd's, whose end leaves the jobs to the next agent.
fn units(agents: usize, ttl: Duration) -> FarmBuilder {
    Farm::new()
        .agents(agents)
        .ttl(ttl)
        .jobs(JOBS)
        .env("NOTIFY_SOCKET", "/nonexistent/notify")
        .env("INVOCATION_ID", "0123456789abcdef0123456789abcdef")
}

/// A command of the next release, as the schema's owner.
fn command(farm: &Farm, words: &[&str]) -> Command {
    let mut command = Command::new(next::program());
    command
        .args(words)
        .env("FARMHAND_DATABASE_URL", farm.database.url())
        .env("NO_COLOR", "1")
        .kill_on_drop(true);
    command
}

async fn run_next(farm: &Farm, words: &[&str]) -> Output {
    let output = command(farm, words).output().await;
    output.expect("farmhand-next starts")
}

async fn migrate(farm: &Farm) {
    let done = run_next(farm, &["migrate"]).await;
    assert!(done.status.success(), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("next"), "{done:?}");
}

/// A run of `long` alive on each node.
async fn long(farm: &Farm) -> Vec<Run> {
    farm.submit("long").await;
    let runs = farm.runs("long").await;
    assert_eq!(runs.len(), farm.agents.len(), "{runs:?}");
    for run in &runs {
        farm.lives(run.run_id, 1).await;
    }
    farm.runs("long").await
}

/// What runs is let go, and each run ends in the attempt that it began with.
async fn let_go(farm: &Farm, runs: &[Run]) {
    std::fs::write(farm.dir().join("let-go"), "").expect("a file");
    for run in runs {
        let done = farm.succeeds(run.run_id).await;
        assert_eq!(
            (done.attempt, done.takeovers, done.fence),
            (1, 0, run.fence),
            "{done:?}"
        );
    }
    assert_eq!(farm.events("expired").await, 0);
    let gaps = "SELECT count(*) FROM (SELECT first_due - lag(last_due) OVER (ORDER BY first_due) AS gap
        FROM farmhand.run WHERE job_id = 'tick') g WHERE gap <> interval '1 second'";
    assert_eq!(
        farm.value::<i64>(gaps).await,
        0,
        "instants without an outcome, or with two"
    );
    farm.check().await;
}

/// What `systemctl stop` does, and the first half of a package's upgrade.
async fn stopped(agent: &mut Agent) {
    agent.signal(libc::SIGTERM);
    let status = agent.exit(SOON).await;
    assert!(status.success(), "{status}: {}", agent.log_tail(20));
}

/// Waits until the agents that run have done, from now on, all that agents do.
async fn goes_on(farm: &Farm) {
    let running: Vec<&str> = farm
        .agents
        .iter()
        .filter(|a| a.is_running())
        .map(|a| a.address.as_str())
        .collect();
    let renewals = format!(
        "SELECT array_agg(renewals ORDER BY address) FROM farmhand.node WHERE address IN ('{}')",
        running.join("', '")
    );
    let ticks = "SELECT count(*) FROM farmhand.run WHERE job_id = 'tick' AND state = 'succeeded'";
    let renewed: Vec<i64> = farm.value(&renewals).await;
    let fired: i64 = farm.value(ticks).await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    farm.eventually(
        "leases are renewed and instants are fired",
        SOON * 2,
        async || {
            let (renewals, ticks): (Vec<i64>, i64) = (farm.value(&renewals).await, farm.value(ticks).await);
            let each = renewals.iter().zip(&renewed).all(|(now, before)| now > before);
            match each && ticks >= fired + 2 {
                true => Ok(()),
                false => Err(format!(
                    "{renewals:?} after {renewed:?}, {ticks} instants after {fired}"
                )),
            }
        },
    )
    .await;
}

/// Started in vain: its exit code and what it said.
async fn refused(agent: &mut Agent) -> (Option<i32>, String) {
    let before = agent.log().len();
    agent.spawn();
    let status = agent.exit(SOON).await;
    (status.code(), agent.log().split_off(before))
}

async fn version(farm: &Farm, address: &str) -> String {
    farm.value(&format!(
        "SELECT version FROM farmhand.node WHERE address = '{address}'"
    ))
    .await
}

/// The binaries that the node's wardens are.
fn wardens(agent: &Agent) -> Vec<PathBuf> {
    let exe = |pid: i32| std::fs::read_link(format!("/proc/{pid}/exe")).expect("a living warden");
    agent.wardens().iter().map(|p| exe(p.pid)).collect()
}

fn is(found: &[PathBuf], binary: &Path) {
    let binary = binary.canonicalize().expect("a binary");
    assert_eq!(found, [binary]);
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_first_running_agents_go_on_and_each_is_upgraded_under_its_jobs() {
    let mut farm = units(2, LONG).start().await;
    let runs = long(&farm).await;
    let sessions = "SELECT array_agg(session ORDER BY address) FROM farmhand.node";
    let before: Vec<i64> = farm.value(sessions).await;
    goes_on(&farm).await;

    migrate(&farm).await;
    goes_on(&farm).await;
    assert_eq!(farm.value::<Vec<i64>>(sessions).await, before);
    for agent in &farm.agents {
        assert_eq!(agent.get("/readyz").await.map(|(status, _)| status), Some(200));
    }
    let command = farm.farmhand(&["run", "ls"]);
    assert_eq!(command.status.code(), Some(4), "{command:?}");
    let said = String::from_utf8_lossy(&command.stderr).into_owned();
    assert!(
        said.contains("newer version") && said.contains("install"),
        "{said}"
    );
    assert!(run_next(&farm, &["run", "ls"]).await.status.success());

    for at in 0..2 {
        let agent = &mut farm.agents[at];
        stopped(agent).await;
        agent.program = next::program();
        agent.start().await;
        let agent = &farm.agents[at];
        assert_eq!(version(&farm, &agent.address).await, next::VERSION);
        is(&wardens(agent), farmhand());
        goes_on(&farm).await;
    }
    let nodes = run_next(&farm, &["node", "ls"]).await;
    let nodes = String::from_utf8_lossy(&nodes.stdout).into_owned();
    assert_eq!(nodes.matches(next::VERSION).count(), 2, "{nodes}");
    let_go(&farm, &runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_first_the_new_agent_does_not_start_until_the_schema_is_migrated_and_jobs_go_on() {
    let mut farm = units(2, LONG).start().await;
    let runs = long(&farm).await;
    stopped(&mut farm.agents[0]).await;
    farm.agents[0].program = next::program();
    let (code, said) = refused(&mut farm.agents[0]).await;
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("run `farmhand migrate`"), "{said}");
    assert_eq!(version(&farm, "n1").await, release::version());
    let command = run_next(&farm, &["run", "ls"]).await;
    assert_eq!(command.status.code(), Some(4), "{command:?}");
    let said = String::from_utf8_lossy(&command.stderr).into_owned();
    assert!(said.contains("run `farmhand migrate`"), "{said}");
    goes_on(&farm).await;

    migrate(&farm).await;
    farm.agents[0].start().await;
    assert_eq!(version(&farm, "n1").await, next::VERSION);
    goes_on(&farm).await;
    let_go(&farm, &runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_agent_that_crashes_on_a_newer_schema_is_refused_and_its_runs_go_elsewhere() {
    let mut farm = units(2, Duration::from_secs(8)).start().await;
    farm.apply(
        "[job.anywhere]\ncommand = [WITNESS, 'until=@DIR@/let-go']\n
         [job.short]\ncommand = [WITNESS, '50']\n",
    );
    let run_id = farm.submit("anywhere").await;
    let home = farm.lives(run_id, 1).await.running_at.expect("a node");
    migrate(&farm).await;
    let agent = farm.agent(&home);
    agent.kill();
    let (code, said) = refused(agent).await;
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("newer version") && said.contains("install that version"),
        "{said}"
    );
    let second = farm.lives(run_id, 2).await;
    assert_ne!(second.running_at, Some(home.clone()));
    std::fs::write(farm.dir().join("let-go"), "").expect("a file");
    let done = farm.succeeds(run_id).await;
    assert_eq!((done.attempt, done.takeovers), (2, 1), "{done:?}");

    let agent = farm.agent(&home);
    agent.program = next::program();
    agent.start().await;
    is(&wardens(farm.agent(&home)), &next::program());
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_same_schema_an_agent_is_downgraded_under_its_jobs() {
    let mut farm = units(1, LONG).env("FARMHAND_NEXT_SCHEMA", "same").prepare().await;
    farm.agents[0].program = next::program();
    farm.agents[0].start().await;
    let runs = long(&farm).await;
    assert_eq!(version(&farm, "n1").await, next::VERSION);
    is(&wardens(&farm.agents[0]), &next::program());

    stopped(&mut farm.agents[0]).await;
    farm.agents[0].program = farmhand().to_path_buf();
    farm.agents[0].start().await;
    assert_eq!(version(&farm, "n1").await, release::version());
    is(&wardens(&farm.agents[0]), &next::program());
    goes_on(&farm).await;
    let_go(&farm, &runs).await;
}

/// A dump, say. Whoever asks for a lock that it keeps from us waits behind us; renewals must not.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_waits_for_a_long_reader_gives_way_to_agents() {
    let farm = units(2, LONG).start().await;
    let runs = long(&farm).await;
    let reader = farm.database.client().await;
    let read = "BEGIN; SELECT FROM farmhand.node; SELECT FROM farmhand.run_live";
    reader.exec(read).await;
    let mut migration = command(&farm, &["migrate"]).spawn().expect("it starts");
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%next_thing%' AND pid <> pg_backend_pid()";
    farm.becomes_some(SOON, waits).await;
    goes_on(&farm).await;
    assert!(migration.try_wait().expect("a child").is_none(), "it waits on");
    reader.exec("COMMIT").await;
    let done = tokio::time::timeout(SOON, migration.wait()).await;
    assert!(done.expect("in time").expect("a child").success());
    assert!(run_next(&farm, &["run", "ls"]).await.status.success());
    goes_on(&farm).await;
    let_go(&farm, &runs).await;
}
