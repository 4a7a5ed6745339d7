//! The bare statements, as a limit: rows claimed with SKIP LOCKED and moved to a history, by pgbench.

use std::process::Command;

use farmhand_tests::bench::figure;
use farmhand_tests::pg::{PrivateServer, connect};

const SCHEMA: &str = "
    CREATE TABLE live (id bigint PRIMARY KEY, job text NOT NULL, state text NOT NULL DEFAULT 'due', holder bigint,
        claimed_at timestamptz) WITH (fillfactor = 70);
    CREATE INDEX live_due ON live (id) WHERE state = 'due';
    CREATE INDEX live_held ON live (holder) WHERE state = 'running';
    CREATE TABLE history (id bigint NOT NULL, job text NOT NULL, state text NOT NULL, holder bigint,
        claimed_at timestamptz, finished_at timestamptz NOT NULL);
    CREATE INDEX history_id ON history (id)";

/// A set is claimed by one transaction and finished by the next, both statements prepared.
const SCRIPT: &str = "
WITH pick AS MATERIALIZED (SELECT id FROM live WHERE state = 'due' ORDER BY id LIMIT :set FOR UPDATE SKIP LOCKED)
UPDATE live l SET state = 'running', holder = :client_id, claimed_at = now() FROM pick p WHERE l.id = p.id;
WITH gone AS (DELETE FROM live WHERE state = 'running' AND holder = :client_id RETURNING *)
INSERT INTO history SELECT id, job, 'succeeded', holder, claimed_at, now() FROM gone;
";

pub async fn measure(server: &PrivateServer, runs: usize, clients: usize) {
    let url = server.admin_url().replace("/farmhand?", "/bare?");
    let sql = connect(&url).await;
    sql.batch_execute(SCHEMA).await.expect("tables");
    let script = std::env::temp_dir().join(format!("bare-{}.sql", std::process::id()));
    std::fs::write(&script, SCRIPT).expect("a file");
    for set in [1, 100, 500] {
        let runs = if set == 1 { runs / 40 } else { runs };
        sql.batch_execute("TRUNCATE live; TRUNCATE history")
            .await
            .expect("empty tables");
        sql.execute(
            "INSERT INTO live (id, job) SELECT i, 'job' || i % 100 FROM generate_series(1, $1::int) i",
            &[&(runs as i32)],
        )
        .await
        .expect("rows");
        sql.batch_execute("VACUUM ANALYZE live").await.expect("a vacuum");
        sql.batch_execute("CHECKPOINT").await.expect("a checkpoint");
        let rounds = runs / set / clients;
        let began = std::time::Instant::now();
        let out = Command::new("pgbench")
            .args(["--no-vacuum", "--protocol=prepared"])
            .args(["--client", &clients.to_string(), "--jobs", "1"])
            .args(["--transactions", &rounds.to_string()])
            .args(["--define", &format!("set={set}")])
            .args(["--file", &script.display().to_string()])
            .arg(&url)
            .output()
            .expect("pgbench: apt-get install postgresql-client postgresql-contrib");
        let took = began.elapsed().as_secs_f64();
        assert!(
            out.status.success(),
            "pgbench: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        let done: i64 = sql
            .query_one("SELECT count(*) FROM history", &[])
            .await
            .expect("a count")
            .get(0);
        figure(
            "queue",
            &format!("bare statements by pgbench, {clients} clients, sets of {set}"),
            done as f64 / took,
            "runs/s",
        );
    }
    let _ = std::fs::remove_file(script);
}
