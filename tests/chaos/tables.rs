//! Table jobs whose nodes die.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON, TAKEOVER};
use farmhand_tests::witness::boot_ns;

const ROWS: i64 = 40;

/// Kills a holder in the middle; answers how often each row's command began, and the farm.
async fn rows_with_a_death(on_lost: &str) -> (Farm, BTreeMap<i64, usize>) {
    let mut farm = Farm::new().agents(2).slots(3).start().await;
    farm.sql
        .batch_execute(
            "CREATE TABLE work (id bigint PRIMARY KEY, sent timestamptz, done timestamptz, code int, said text);
             CREATE INDEX ON work (id) WHERE sent IS NULL;",
        )
        .await
        .unwrap();
    farm.sql
        .execute("INSERT INTO work SELECT generate_series(1, $1::bigint)", &[&ROWS])
        .await
        .unwrap();
    farm.apply(&format!(
        "[job.work]\ncommand = 'echo \"$1\" >> @DIR@/began; sleep 1'\non_lost = '{on_lost}'\n
         [job.work.table]\nname = 'work'\nkey = 'id'\ndispatch = 'sent'\nfinished = 'done'\nexit_code = 'code'
         message = 'said'\nmax_running = 5\npoll = '1s'\n"
    ));
    let began = farm.dir().join("began");
    let holder = farm
        .eventually("a node has just begun a row", Duration::from_secs(30), async || {
            let done: i64 = farm.value("SELECT count(*) FROM work WHERE done IS NOT NULL").await;
            let running: Option<String> = farm
                .value("SELECT max(running_at) FROM farmhand.run_live WHERE claimed_at > clock_timestamp() - interval '300ms'")
                .await;
            running.filter(|_| done >= 6).ok_or_else(|| format!("{done} done"))
        })
        .await;
    farm.agent(&holder).kill_with_wardens();
    farm.eventually("every row has an end", Duration::from_secs(90), async || {
        let left: i64 = farm
            .value("SELECT count(*) FROM work WHERE done IS NULL OR sent IS NULL")
            .await;
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} rows left"))
        }
    })
    .await;
    let most: i64 = farm
        .value(
            "SELECT max(n) FROM (SELECT (SELECT count(*) FROM farmhand.run_history b WHERE b.claimed_at <= a.claimed_at
             AND b.finished_at > a.claimed_at) AS n FROM farmhand.run_history a) w",
        )
        .await;
    assert!(most <= 5, "{most} rows at once");
    let mut times: BTreeMap<i64, usize> = (1..=ROWS).map(|id| (id, 0)).collect();
    for line in std::fs::read_to_string(began).unwrap().lines() {
        *times.get_mut(&line.parse().unwrap()).unwrap() += 1;
    }
    (farm, times)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_on_lost_fail_no_row_is_lost_sight_of_and_none_is_run_twice() {
    let (farm, times) = rows_with_a_death("fail").await;
    assert!(times.values().all(|n| *n <= 1), "{times:?}");
    let lost: i64 = farm
        .value("SELECT count(*) FROM work WHERE said LIKE 'lost%'")
        .await;
    let ran: i64 = farm.value("SELECT count(*) FROM work WHERE code = 0").await;
    assert!(lost > 0 && lost + ran == ROWS, "{lost} lost, {ran} ran");
    let runs: i64 = farm.value("SELECT count(*) FROM farmhand.run").await;
    assert_eq!(runs, ROWS);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_on_lost_rerun_every_row_is_run_and_only_what_was_lost_is_repeated() {
    let (farm, times) = rows_with_a_death("rerun").await;
    let ran: i64 = farm.value("SELECT count(*) FROM work WHERE code = 0").await;
    assert_eq!(ran, ROWS);
    let taken: Vec<i64> = farm
        .sql
        .query("SELECT key::bigint FROM farmhand.run WHERE takeovers > 0", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(!taken.is_empty());
    for (id, n) in times {
        let allowed = if taken.contains(&id) { 1..=2 } else { 1..=1 };
        assert!(
            allowed.contains(&n),
            "row {id} began {n} times; taken over: {taken:?}"
        );
    }
    farm.check().await;
}

/// Whatever is written to the table hangs for as long as the test has a lock: dispatch and ends alike. No lock is waited for,
/// so that no limit of such waits helps.
const HANGS: &str = "
    CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            WHILE NOT pg_try_advisory_xact_lock_shared(7) LOOP PERFORM pg_sleep(0.05); END LOOP;
            RETURN NEW;
        END $$;";

const HANGING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";

/// More than two agents have connections for.
const TABLES: usize = 12;

/// Less than a statement may take: who waits for a hanging one takes longer.
const AT_ONCE: Duration = Duration::from_secs(9);

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_hang_delay_no_other_job_and_no_takeover() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs("[job.short]\ncommand = [WITNESS, '50']\n[job.long]\ncommand = [WITNESS, '3000']\n")
        .start()
        .await;
    farm.sql.batch_execute(HANGS).await.expect("a function");
    let lock = farm.database.client().await;
    lock.batch_execute("SELECT pg_advisory_lock(7)")
        .await
        .expect("a lock");
    for table in (0..TABLES).map(|n| format!("table_{n}")) {
        let made = format!(
            "CREATE TABLE {table} (id bigint PRIMARY KEY, sent timestamptz, done timestamptz);
             CREATE INDEX ON {table} (id) WHERE sent IS NULL;
             INSERT INTO {table} SELECT generate_series(1, 5);
             CREATE TRIGGER hang BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION hang()"
        );
        farm.sql.batch_execute(&made).await.expect("a table");
        farm.apply(&format!(
            "[job.{table}]\ncommand = 'true'\n
             [job.{table}.table]\nname = '{table}'\nkey = 'id'\ndispatch = 'sent'\nfinished = 'done'\npoll = '1s'\n"
        ));
    }
    let hanging = async |farm: &Farm| {
        farm.eventually("dispatch hangs", SOON, async || {
            match farm.value::<i64>(HANGING).await {
                0 => Err("not yet".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
    };
    hanging(&farm).await;
    for _ in 0..5 {
        let run_id = farm.submit("short").await;
        let done = farm.over(run_id, AT_ONCE).await;
        assert_eq!(done.state, "succeeded", "{done:?}");
    }
    hanging(&farm).await;
    let long = farm.submit("long").await;
    let home = farm.lives(long, 1).await.running_at.expect("a node");
    let killed = boot_ns();
    farm.agent(&home).kill_with_wardens();
    farm.lives(long, 2).await;
    let delay = Duration::from_nanos(farm.witness.life(long, 2).first - killed);
    assert!(delay <= TAKEOVER, "{delay:?}");
    farm.succeeds(long).await;
    hanging(&farm).await;
    drop(lock);
    farm.eventually("every row has an end", Duration::from_secs(60), async || {
        let tables: Vec<_> = (0..TABLES)
            .map(|n| format!("SELECT done FROM table_{n}"))
            .collect();
        let left = format!(
            "SELECT count(*) FROM ({}) r WHERE done IS NULL",
            tables.join(" UNION ALL ")
        );
        match farm.value::<i64>(&left).await {
            0 => Ok(()),
            left => Err(format!("{left} rows left")),
        }
    })
    .await;
}
