//! Table jobs whose tables hang, and a node that dies beside them.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON, TAKEOVER};
use farmhand_tests::witness::boot_ns;

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
    farm.exec(HANGS).await;
    let lock = farm.database.client().await;
    lock.exec("SELECT pg_advisory_lock(7)").await;
    for table in (0..TABLES).map(|n| format!("table_{n}")) {
        let made = format!(
            "CREATE TABLE {table} (id bigint PRIMARY KEY, sent timestamptz, done timestamptz);
             CREATE INDEX ON {table} (id) WHERE sent IS NULL;
             INSERT INTO {table} SELECT generate_series(1, 5);
             CREATE TRIGGER hang BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION hang()"
        );
        farm.exec(&made).await;
        farm.apply(&format!(
            "[job.{table}]\ncommand = 'true'\n
             [job.{table}.table]\nname = '{table}'\nkey = 'id'\ndispatch = 'sent'\nfinished = 'done'\npoll = '1s'\n"
        ));
    }
    let hanging = async |farm: &Farm| {
        farm.becomes_some(SOON, HANGING).await;
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
