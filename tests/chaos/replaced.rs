//! The database is restored, dumped and loaded, upgraded or restarted under living agents.

use std::time::Duration;

use farmhand_tests::farm::{Agent, CALM, Farm, SOON, TTL};
use farmhand_tests::pg::{Options, PrivateServer};

const JOBS: &str = "
    [job.short]
    command = [WITNESS, '20']
    [job.long]
    command = [WITNESS, '6000']
";

/// What this lease's agents wait for before they use a database that they do not know, and a machine that is busy.
const WAITED: Duration = Duration::from_secs(TTL.as_secs() + SOON.as_secs());

async fn farm(prepare: impl FnOnce(&mut PrivateServer)) -> Farm {
    farm_with(TTL, prepare).await
}

async fn farm_with(ttl: Duration, prepare: impl FnOnce(&mut PrivateServer)) -> Farm {
    let mut server = PrivateServer::start(Options::default()).await;
    prepare(&mut server);
    Farm::new().agents(2).ttl(ttl).on(server).jobs(JOBS).start().await
}

/// Number and fence of a new run, when it has succeeded.
async fn one(farm: &Farm) -> (i64, i64) {
    let run = farm.submit("short").await;
    let run = farm.over(run, WAITED).await;
    assert_eq!(run.state, "succeeded", "{run:?}");
    (run.run_id, run.fence.expect("a fence"))
}

/// Replaces the database; afterwards fences and run numbers are above all that were given before.
async fn replace(farm: &mut Farm, with: impl FnOnce(&mut PrivateServer)) {
    let mut highest = (0, 0);
    for _ in 0..3 {
        highest = highest.max(one(farm).await);
    }
    let pulse: i64 = farm.value("SELECT pulse FROM farmhand.farm").await;
    farm.eventually("both agents have seen more than the copy has", SOON, async || {
        let now: i64 = farm.value("SELECT pulse FROM farmhand.farm").await;
        (now >= pulse + 2).then_some(()).ok_or_else(|| now.to_string())
    })
    .await;
    with(farm.database.server());
    farm.sql = farm.database.client().await;
    // What is submitted before may get a number that the copy does not know of.
    farm.eventually("claims are open", WAITED, async || {
        let open = "SELECT open FROM farmhand.database";
        farm.value::<bool>(open)
            .await
            .then_some(())
            .ok_or_else(|| "closed".to_owned())
    })
    .await;
    assert!(farm.value::<i64>("SELECT max(epoch) FROM farmhand.epoch").await > 1);
    for _ in 0..3 {
        let next = one(farm).await;
        assert!(next.0 > highest.0, "run {} was given twice: {highest:?}", next.0);
        assert!(next.1 > highest.1, "fence {} after {}", next.1, highest.1);
        highest = next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_when_the_database_goes_back_to_an_older_copy_of_its_files() {
    let mut farm = farm(|_| ()).await;
    one(&farm).await;
    let copy = farm.database.server().copy();
    farm.sql = farm.database.client().await;
    let forgotten = farm.submit("long").await;
    farm.lives(forgotten, 1).await;
    replace(&mut farm, |server| server.go_back_to(&copy)).await;
    farm.event("epoch_opened").await;
    let told =
        "SELECT count(*) FROM farmhand.event WHERE kind = 'epoch_opened' AND (detail->>'follows')::bigint = 1
        AND detail->>'why' IS NOT NULL AND (detail->>'runs_forgotten')::bigint >= 0";
    assert_eq!(farm.value::<i64>(told).await, 1, "what was lost is told");
    farm.eventually("what the copy does not know is ended", SOON, async || match farm
        .processes_of_run(forgotten)
        .len()
    {
        0 => Ok(()),
        lives => Err(format!("{lives} processes")),
    })
    .await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_a_job_whose_deletion_a_copy_does_not_know_are_run() {
    let mut farm = farm(|_| ()).await;
    let table = "CREATE TABLE work (id bigint PRIMARY KEY, sent timestamptz, done timestamptz);
        CREATE INDEX ON work (id) WHERE sent IS NULL";
    farm.exec(table).await;
    farm.apply(&format!(
        "{JOBS}\n[job.work]\ncommand = [WITNESS, '20']\n[job.work.table]\nname = 'work'\nkey = 'id'\ndispatch = 'sent'
         finished = 'done'\npoll = '1s'\n"
    ));
    row_is_run(&farm, 1).await;
    let copy = farm.database.server().copy();
    farm.sql = farm.database.client().await;
    one(&farm).await;
    farm.ok(&["job", "rm", "work", "--yes"]);
    replace(&mut farm, |server| server.go_back_to(&copy)).await;
    row_is_run(&farm, 2).await;
    farm.check().await;
}

async fn row_is_run(farm: &Farm, id: i64) {
    let insert = "INSERT INTO work VALUES ($1)";
    farm.sql.exec_with(insert, &[&id]).await;
    let done = format!("SELECT done IS NOT NULL FROM work WHERE id = {id}");
    farm.eventually("the row was run", SOON, async || {
        let done: bool = farm.value(&done).await;
        done.then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_when_the_database_is_dumped_and_loaded_into_a_new_server() {
    let mut farm = farm(PrivateServer::leave_first_timeline).await;
    replace(&mut farm, PrivateServer::dump_and_load).await;
    farm.check().await;
}

/// The planned move of docs/guides/databases.md: the old database is read-only before it is dumped.
#[tokio::test(flavor = "multi_thread")]
async fn a_planned_move_forgets_nothing() {
    let mut farm = farm(|_| ()).await;
    farm.apply(&format!(
        "{JOBS}\n[job.tick]\ncommand = [WITNESS, '20']\nschedule = '@every 1s'\ncatch_up.runs = 'all'\noverlap = 'allow'\n"
    ));
    farm.first_run("tick").await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;

    let database: String = farm.value("SELECT current_database()::text").await;
    let admin = farm.database.admin().await;
    let close = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
    admin.exec(&close).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IS NOT NULL AND pid <> pg_backend_pid()";
    admin.exec(end).await;
    farm.eventually("its lease ran out", WAITED, async || {
        match farm.processes_of_run(long).len() {
            0 => Ok(()),
            lives => Err(format!("{lives} processes")),
        }
    })
    .await;
    farm.sql = farm.database.client().await;
    const HIGHEST: &str = "SELECT max(run_id) FROM farmhand.run";
    let highest: i64 = farm.value(HIGHEST).await;
    farm.database.server().dump_and_load();
    farm.sql = farm.database.client().await;
    assert_eq!(farm.value::<i64>(HIGHEST).await, highest);
    let admin = farm.database.admin().await;
    let own = "SET default_transaction_read_only = off";
    admin.exec(own).await;
    let open = format!("ALTER DATABASE {database} RESET default_transaction_read_only");
    admin.exec(&open).await;

    farm.event("epoch_opened").await;
    let forgotten = "SELECT detail->>'runs_forgotten' FROM farmhand.event WHERE kind = 'epoch_opened' ORDER BY at DESC LIMIT 1";
    assert_eq!(farm.value::<String>(forgotten).await, "0");
    farm.over(long, WAITED).await;
    let due = "SELECT count(DISTINCT due_at) = extract(epoch FROM max(due_at) - min(due_at)) + 1
        FROM farmhand.run WHERE job_id = 'tick'";
    farm.eventually("each second has its run", WAITED, async || {
        let whole: bool = farm.value(due).await;
        whole.then_some(()).ok_or_else(|| "a second has none".to_owned())
    })
    .await;
    farm.check().await;
}

/// Nobody remembers anything: only an operator knows what fences targets have stored.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_bump_a_dump_that_was_loaded_with_no_agent_alive_gives_fences_above_those_of_targets() {
    let mut farm = farm(|_| ()).await;
    one(&farm).await;
    for address in ["n1", "n2"] {
        let agent = farm.agent(address);
        agent.kill_with_wardens();
        std::fs::remove_dir_all(agent.state_dir.join("memory")).expect("what it remembered");
    }
    farm.database.server().dump_and_load();
    farm.sql = farm.database.client().await;
    let shown: serde_json::Value = serde_json::from_str(&farm.ok(&["epoch", "--json"])).expect("JSON");
    assert_eq!(shown["closed_because"], "other_cluster", "{shown}");

    let above = ((700_i64 << 40) + 5).to_string();
    let url = farm.database.url();
    let bump = farm
        .command(&["epoch", "bump", "--above", &above, "--yes"])
        .env("FARMHAND_DATABASE_URL", url)
        .output()
        .expect("farmhand starts");
    assert!(bump.status.success(), "{bump:?}");
    let began = std::time::Instant::now();
    for address in ["n1", "n2"] {
        farm.agent(address).spawn();
    }
    let run = farm.submit("short").await;
    let run = farm.over(run, WAITED).await;
    assert_eq!(run.state, "succeeded", "{run:?}");
    assert!(began.elapsed() >= TTL, "the longest lease had not passed");
    assert!(run.fence > Some((701 << 40) + 5), "{run:?}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_over_pg_upgrade() {
    let mut farm = farm(PrivateServer::leave_first_timeline).await;
    replace(&mut farm, PrivateServer::upgrade).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_only_restarted_is_used_at_once_and_what_runs_goes_on() {
    let mut farm = farm_with(CALM, |_| ()).await;
    let long = farm.submit("long").await;
    let first = farm.lives(long, 1).await;
    farm.database.server().kill();
    farm.database.server().restart(None);
    farm.sql = farm.database.client().await;
    let (_, fence) = one(&farm).await;
    assert!(
        Some(fence) > first.fence && fence - first.fence.unwrap_or(0) < 1 << 30,
        "{fence} after {first:?}"
    );
    assert_eq!(farm.events("database_unknown").await, 0);
    let ended = farm.succeeds(long).await;
    assert_eq!((ended.attempt, ended.fence), (1, first.fence));
    farm.check().await;
}

/// Starts an agent again with another memory of the database.
async fn remembers(agent: &mut Agent, change: impl FnOnce(&mut serde_json::Value)) {
    agent.signal(libc::SIGTERM);
    agent.exit(SOON).await;
    let file = agent.state_dir.join("memory/database.json");
    let text = std::fs::read_to_string(&file).expect("its memory");
    let mut memory = serde_json::from_str(&text).expect("JSON");
    change(&mut memory);
    std::fs::write(&file, memory.to_string()).expect("written");
    agent.start().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_has_seen_higher_numbers_of_runs_raises_them() {
    let mut farm = farm(|_| ()).await;
    let (run, fence) = one(&farm).await;
    let seen = run + 5_000;
    remembers(&mut farm.agents[1], |memory| memory["run"] = seen.into()).await;
    farm.eventually("they are raised", SOON, async || {
        let last = "SELECT last_value FROM farmhand.run_id_seq";
        match farm.value::<i64>(last).await {
            last if last >= seen => Ok(()),
            last => Err(last.to_string()),
        }
    })
    .await;
    let next = one(&farm).await;
    assert!(next.0 > seen, "{next:?}");
    assert_eq!(next.1 >> 40, fence >> 40, "claims were not closed for it");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_remembers_a_later_epoch_closes_claims_once_and_the_next_one_is_above_it() {
    let mut farm = Farm::new().agents(3).ttl(TTL).jobs(JOBS).start().await;
    let (_, first) = one(&farm).await;
    // As if it had been at a later copy of this farm.
    remembers(&mut farm.agents[2], |memory| {
        memory["epoch"] = 71.into();
        memory["id"] = "00000000-0000-0000-0000-000000000071".into();
    })
    .await;
    farm.eventually("the next epoch is opened", WAITED, async || {
        match farm.value::<i64>("SELECT count(*) FROM farmhand.epoch").await {
            1 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let (_, fence) = one(&farm).await;
    assert_eq!(first >> 40, 1);
    assert_eq!(fence >> 40, 72, "above what the third agent remembers");
    let epochs = "SELECT string_agg(epoch::text, ' ' ORDER BY epoch) FROM farmhand.epoch";
    assert_eq!(farm.value::<String>(epochs).await, "1 72");
    farm.check().await;
}

/// A machine that was started again finds a database that it does not know and a session of its own that is open: it waits for the
/// end of both at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_waits_for_the_epoch_and_for_its_last_session_side_by_side() {
    let server = PrivateServer::start(Options::default()).await;
    let mut farm = Farm::new().ttl(TTL).on(server).jobs(JOBS).start().await;
    one(&farm).await;
    farm.agents[0].kill_with_guards();
    farm.database.server().kill();
    farm.database.server().restart(None);
    farm.sql = farm.database.client().await;
    let memory = farm.agents[0].state_dir.join("memory/database.json");
    std::fs::remove_file(memory).expect("a memory");
    let restarted: f64 = farm
        .value("SELECT extract(epoch FROM clock_timestamp())::float8")
        .await;
    farm.agents[0].spawn();
    one(&farm).await;
    let epoch = "SELECT extract(epoch FROM max(opened_at))::float8 FROM farmhand.epoch";
    let session = "SELECT extract(epoch FROM started_at)::float8 FROM farmhand.node WHERE open";
    let (epoch, session): (f64, f64) = (farm.value(epoch).await, farm.value(session).await);
    let (closed, after) = (epoch - restarted, session - epoch);
    assert!(closed > TTL.as_secs_f64(), "claims were opened after {closed} s");
    assert!(
        after < TTL.as_secs_f64() / 2.0,
        "the session was opened {after} s after claims were"
    );
    farm.check().await;
}
