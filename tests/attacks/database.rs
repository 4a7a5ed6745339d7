//! What logins of the farm's roles can do by SQL of their own: the database refuses what no honest client writes.

use farmhand_store::tokens::{begin_session, find_session, find_token};
use std::time::Duration;

use super::logins::{Attacked, CHECKED, DENIED, refused};

#[tokio::test]
async fn a_session_begins_with_the_token_and_lasts_no_longer_than_a_day() {
    let a = Attacked::new().await;
    for statement in [
        "INSERT INTO farmhand.web_session (hash, token_id, remote, expires_at)
             SELECT sha256('x'), 1, '', now() + interval '10 years'",
        "SELECT hash FROM farmhand.api_token",
        "SELECT hash FROM farmhand.web_session",
        "UPDATE farmhand.api_token SET last_used_at = now()",
    ] {
        refused(&a.agent, statement, DENIED).await;
    }
    let longer = "INSERT INTO farmhand.web_session (hash, token_id, remote, expires_at)
                  SELECT sha256('x'), token_id, '', now() + interval '10 years' FROM farmhand.api_token";
    refused(&a.owner, longer, CHECKED).await;
    let db = a.test.agent_db().await;
    let hash = async |text: &str| -> [u8; 32] {
        let row = a
            .owner
            .query_one("SELECT sha256(convert_to($1, 'UTF8'))", &[&text])
            .await;
        let bytes: Vec<u8> = row.expect("a hash").get(0);
        bytes.try_into().expect("32 bytes")
    };
    let (token, guess, session) = (hash("token").await, hash("guess").await, hash("session").await);
    let years = Duration::from_secs(10 * 365 * 86_400);
    assert!(!begin_session(&db, &session, &guess, "", years).await.unwrap());
    assert!(find_token(&db, &guess).await.unwrap().is_none());
    assert!(begin_session(&db, &session, &token, "", years).await.unwrap());
    assert_eq!(find_session(&db, &session).await.unwrap().unwrap().name, "boss");
    assert!(
        find_token(&db, &session).await.unwrap().is_none(),
        "a session is no token"
    );
    let lasts = "SELECT (expires_at <= now() + interval '1 day')::text FROM farmhand.web_session";
    assert_eq!(a.text(lasts).await.as_deref(), Some("true"));
}

#[tokio::test]
async fn rows_that_would_break_lists_mails_and_logs_are_refused() {
    let a = Attacked::new().await;
    for statement in [
        "INSERT INTO farmhand.run_history SELECT h.* FROM farmhand.run_live r,
             LATERAL farmhand.ended(jsonb_populate_record(r, '{\"kind\": \"none of ours\"}'), 'failed', 'x', 'holder') h",
        "INSERT INTO farmhand.notification (target, channel, topic, job_id, key, body)
             VALUES ('ops', 'email', 'failure', E'a\\r\\nBcc: all@example.org', 'k', '{}')",
    ] {
        refused(&a.agent, statement, CHECKED).await;
    }
    for statement in [
        "INSERT INTO farmhand.notify_target (name, spec, source, changed_by, changed_at)
             VALUES ('x', '{\"email\": [\"a@b\\r\\nBcc: all@example.org\"]}', '', '', now())",
        "INSERT INTO farmhand.job (job_id, rev, seq, enabled, scheduled, overlap, on_lost, priority, instances, each_node, source, applied_by, applied_at)
             VALUES (E'j\\nforged', 1, 1, true, false, 'allow', 'rerun', 0, 1, false, '', '', now())",
    ] {
        refused(&a.operator, statement, CHECKED).await;
    }
}

#[tokio::test]
async fn history_is_kept_for_as_long_as_the_databases_owner_says_whatever_agents_ask_for() {
    let a = Attacked::new().await;
    a.owner.exec(
        "DO $$ DECLARE part text; BEGIN
             FOR part IN SELECT name FROM farmhand.history_partition WHERE name !~ 'default' LOOP
                 EXECUTE format('DROP TABLE farmhand.%I', part);
             END LOOP;
             EXECUTE format('CREATE TABLE farmhand.event_mine PARTITION OF farmhand.event FOR VALUES FROM (%L) TO (%L)',
                 now() - interval '10 days', now() - interval '2 days');
         END $$;
         INSERT INTO farmhand.event (at, kind, severity) VALUES (now() - interval '3 days', 'x', 'info');
         INSERT INTO farmhand.run_history SELECT h.* FROM farmhand.run_live r,
             LATERAL farmhand.ended(r, 'failed', 'x', 'holder') h;
         UPDATE farmhand.run_history SET finished_at = now() - interval '3 days';
         INSERT INTO farmhand.task (run_id, task, attempt, outcome, ended_at, stored_at)
             SELECT run_id, 't', 1, 'failed', now(), now() - interval '3 days' FROM farmhand.run_live;
         DELETE FROM farmhand.run_live"
    ).await;
    let left = "SELECT concat((SELECT count(*) FROM farmhand.event WHERE kind = 'x'),
                    (SELECT count(*) FROM farmhand.run_history), (SELECT count(*) FROM farmhand.task))";
    let shortest = "SELECT farmhand.drop_partitions(1, 1, 1); SELECT farmhand.trim_history(1, 1, 1, 100000)";
    a.agent.batch_execute(shortest).await.expect(shortest);
    assert_eq!(a.text(left).await.as_deref(), Some("111"), "deleted by an agent");
    refused(&a.agent, "DELETE FROM farmhand.task", DENIED).await;
    for client in [&a.agent, &a.operator] {
        refused(client, "UPDATE farmhand.retention SET at_least = 1", DENIED).await;
    }
    let owners = "UPDATE farmhand.retention SET at_least = 1";
    a.owner.batch_execute(owners).await.expect(owners);
    a.agent.batch_execute(shortest).await.expect(shortest);
    let tasks = "DELETE FROM farmhand.task";
    a.agent.batch_execute(tasks).await.expect(tasks);
    assert_eq!(a.text(left).await.as_deref(), Some("000"));
}

#[tokio::test]
async fn an_agent_that_reports_late_is_not_refused_for_the_output_it_would_trim() {
    let a = Attacked::new().await;
    a.owner
        .exec(
            "INSERT INTO farmhand.run_history SELECT h.* FROM farmhand.run_live r,
                 LATERAL farmhand.ended(r, 'failed', 'x', 'holder') h;
             INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
                 SELECT run_id, 1, 1, 'stdout', now(), now(), 'x' FROM farmhand.run_live;
             DELETE FROM farmhand.run_live",
        )
        .await;
    let run = a.text("SELECT min(run_id)::text FROM farmhand.run_history").await;
    let run: i64 = run.and_then(|run| run.parse().ok()).expect("its number");
    let trim = include_str!("../../common/store/src/sql/trim_log.sql");
    let trimmed = a.agent.execute(trim, &[&run, &1_i32, &0_i64, &9_i64]).await;
    assert_eq!(trimmed.expect("nothing to refuse"), 0);
}
