//! The table of a user's, whose rows are work for one of the jobs, and whose trigger may be slow.

use std::time::Duration;

use crate::pg::Client;

use super::field::Field;

/// The job's name.
pub const JOB: &str = "rows";

/// Rows, and how long each write takes. The sequence counts slow writes, also of what was rolled back.
const TABLE: &str = "
    CREATE TABLE work (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, asked text UNIQUE,
        sent timestamptz, done timestamptz, code int);
    CREATE INDEX ON work (id) WHERE sent IS NULL;
    CREATE TABLE slow (milliseconds int NOT NULL);
    INSERT INTO slow VALUES (0);
    CREATE SEQUENCE slow_writes;
    CREATE FUNCTION write_slowly() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE milliseconds int := (SELECT s.milliseconds FROM public.slow s);
    BEGIN
        IF milliseconds > 0 THEN
            PERFORM nextval('public.slow_writes'), pg_sleep(milliseconds / 1000.0);
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER write_slowly BEFORE UPDATE ON work FOR EACH ROW EXECUTE FUNCTION write_slowly()";

/// What its definition says beside the command.
pub const DEFINITION: &str =
    "[job.rows.table]\nname = 'work'\nkey = 'id'\ndispatch = 'sent'\nfinished = 'done'
exit_code = 'code'\nmax_running = 6\npoll = '1s'\n";

/// # Panics
/// When the database refuses it.
pub async fn create(client: &Client) {
    client.exec(TABLE).await;
}

/// An application that writes rows, each until it is confirmed.
pub async fn fill(field: std::sync::Arc<Field>) {
    for number in 0_u64.. {
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        let sql = format!("INSERT INTO work (asked) VALUES ('row {number}') ON CONFLICT DO NOTHING");
        until_done(&field, &sql).await;
    }
}

/// Writes take so long for a while; how many did.
pub async fn slow_down(field: &Field, milliseconds: u64, lasts: Duration) -> i64 {
    let before = slow_writes(field).await;
    until_done(field, &format!("UPDATE slow SET milliseconds = {milliseconds}")).await;
    tokio::time::sleep(lasts).await;
    until_done(field, "UPDATE slow SET milliseconds = 0").await;
    slow_writes(field).await - before
}

async fn slow_writes(field: &Field) -> i64 {
    loop {
        if let Some(client) = field.client().await {
            let sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM slow_writes";
            let asked = tokio::time::timeout(Duration::from_secs(4), client.query_one(sql, &[])).await;
            if let Ok(Ok(row)) = asked {
                return row.get(0);
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn until_done(field: &Field, sql: &str) {
    loop {
        if let Some(client) = field.client().await {
            let asked = tokio::time::timeout(Duration::from_secs(4), client.batch_execute(sql)).await;
            if matches!(asked, Ok(Ok(()))) {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Rows without an end, and rows whose end is not that of their run.
pub const LEFT: [(&str, &str); 2] = [
    (
        "rows of the user's table without an end",
        "SELECT count(*) FROM work WHERE done IS NULL",
    ),
    (
        "rows of the user's table with another end than their last run",
        "SELECT count(*) FROM work w JOIN LATERAL (SELECT r.exit_code FROM farmhand.run r
            WHERE r.job_id = 'rows' AND r.key = w.id::text ORDER BY r.run_id DESC LIMIT 1) r ON true
         WHERE w.done IS NOT NULL AND w.code IS DISTINCT FROM r.exit_code",
    ),
];
