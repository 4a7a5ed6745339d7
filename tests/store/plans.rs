//! Statements that are prepared: on which connections, and that a plan made for empty tables is good for full ones.

use farmhand_core::lease::MarksBelow;
use farmhand_core::run::RunState;
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{JobChange, apply};
use farmhand_store::protocol::{Finish, NodeReport, Started, claim, finish, fire, poll, renew, started};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::{Options, PrivateServer};
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{TTL, firing, info, opened, past, spec, success};

async fn server() -> PrivateServer {
    server_that_logs(false).await
}

/// `nested`: what functions execute, too.
async fn server_that_logs(nested: bool) -> PrivateServer {
    let settings = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_analyze", "on"),
        (
            "auto_explain.log_nested_statements",
            if nested { "on" } else { "off" },
        ),
        ("autovacuum", "off"),
    ];
    PrivateServer::start(Options {
        settings: settings.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
        ..Options::default()
    })
    .await
}

fn log(server: &PrivateServer) -> String {
    std::fs::read_to_string(server.data().join("../log")).unwrap()
}

#[tokio::test]
async fn a_plan_made_while_nothing_was_due_does_not_read_whole_tables_when_much_is() {
    let server = server().await;
    let (db, sql) = (server.db().await, server.client().await);
    let me = opened(&db, info("a", Uuid::new_v4(), json!({}))).await;
    assert_eq!(claim(&db, &me, 8, None).await.unwrap(), vec![]);
    sql.exec(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
         SELECT 'j' || i % 100, 1, 'submitted', now(), now() FROM generate_series(1, 5) i",
    )
    .await;
    let few = claim(&db, &me, 8, None).await.unwrap();
    let ends: Vec<_> = few.iter().map(|run| success(&me, run)).collect();
    assert_eq!(finish(&db, &ends).await.unwrap().len(), 5);
    // As many that wait, and that others hold; nothing analyses the tables.
    sql.exec(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
         SELECT 'j' || i % 100, 1, 'submitted', now(), now() FROM generate_series(1, 20000) i;
         INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, state, running_at, session, attempt, fence,
             claimed_at)
         SELECT 'j', 1, 'submitted', now(), now(), 'running', 'z', 1, 1, i, now() FROM generate_series(1, 20000) i"
    ).await;
    let before = log(&server).len();
    let claimed = claim(&db, &me, 300, None).await.unwrap();
    assert_eq!(claimed.len(), 300);
    renew(&db, &me, TTL, &NodeReport::default()).await.unwrap();
    poll(&db, &me, &MarksBelow::default()).await.unwrap();
    let ends: Vec<_> = claimed.iter().map(|run| success(&me, run)).collect();
    assert_eq!(finish(&db, &ends).await.unwrap().len(), 300);
    let text = log(&server);
    let plans = &text[before..];
    assert!(plans.contains("run_live_claim"), "{plans}");
    assert!(!plans.contains("Seq Scan on run_live"), "{plans}");
    assert!(!plans.contains("JIT:"), "{plans}");
    // Nor whole indexes, nor the others' rows once for each of the own.
    removes_fewer_than(1_000, plans);
}

#[tokio::test]
async fn ends_are_found_one_by_one_however_many_and_whatever_statistics_say() {
    let server = server().await;
    let (db, sql) = (server.db().await, server.client().await);
    let me = opened(&db, info("a", Uuid::new_v4(), json!({}))).await;
    // Statistics from when everything was due: what is running seems to be nothing.
    sql.exec(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
         SELECT 'j' || i % 100, 1, 'submitted', now(), now() FROM generate_series(1, 4000) i;
         ANALYZE farmhand.run_live",
    )
    .await;
    for count in [1, 8, 64, 500] {
        let claimed = claim(&db, &me, count, None).await.unwrap();
        assert_eq!(claimed.len(), usize::try_from(count).unwrap());
        let starts: Vec<_> = claimed
            .iter()
            .map(|run| Started {
                run_id: run.run_id,
                attempt: run.attempt,
                fence: run.fence,
                started_at: past(1),
            })
            .collect();
        let ends: Vec<_> = claimed.iter().map(|run| success(&me, run)).collect();
        let before = log(&server).len();
        assert_eq!(started(&db, &me, &starts).await.unwrap().len(), claimed.len());
        assert_eq!(finish(&db, &ends).await.unwrap().len(), claimed.len());
        let text = log(&server);
        let plans = &text[before..];
        assert!(plans.contains("run_live_pkey"), "{plans}");
        // None of a set is compared with all of it.
        removes_fewer_than(u64::try_from(count).unwrap() + 1, plans);
    }
}

#[tokio::test]
async fn triggers_of_an_end_write_only_for_those_who_wait_for_it() {
    let server = server_that_logs(true).await;
    let (db, sql) = (server.db().await, server.client().await);
    let me = opened(&db, info("a", Uuid::new_v4(), json!({}))).await;
    // Others have what these jobs have not.
    sql.exec(
        "INSERT INTO farmhand.trigger_edge (parent, child, nth, on_end, several)
         VALUES ('parent', 'child', 0, 'finish', false);
         INSERT INTO farmhand.notify_edge (job_id, target) VALUES ('told', 'people')",
    )
    .await;
    let plans_of = async |jobs: &str, key: &str, count: i64, state: RunState| {
        sql.exec(&format!(
            "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, key)
             SELECT {jobs}, 1, 'submitted', now(), now(), {key} FROM generate_series(1, {count}) i"
        ))
        .await;
        let claimed = claim(&db, &me, 64, None).await.unwrap();
        let ends: Vec<_> = claimed
            .iter()
            .map(|run| Finish {
                state,
                ..success(&me, run)
            })
            .collect();
        let before = log(&server).len();
        assert_eq!(i64::try_from(finish(&db, &ends).await.unwrap().len()), Ok(count));
        log(&server)[before..].to_owned()
    };
    let work = [
        "INSERT INTO farmhand.row_result",
        "INSERT INTO farmhand.triggering",
        "INSERT INTO farmhand.notify_note",
        "WindowAgg",
    ];
    for count in [1, 64] {
        let plans = plans_of("'j' || i % 10", "NULL", count, RunState::Succeeded).await;
        assert!(plans.contains("INSERT INTO farmhand.job_stat"), "{plans}");
        for work in work {
            assert!(!plans.contains(work), "{work} at {count} ends:\n{plans}");
        }
    }
    let asked = [
        ("'j'", "'1'", RunState::Succeeded),
        ("'parent'", "NULL", RunState::Succeeded),
        ("'told'", "NULL", RunState::Succeeded),
        ("'j'", "NULL", RunState::Failed),
    ];
    for ((job, key, state), expected) in asked.into_iter().zip(work) {
        let plans = plans_of(job, key, 1, state).await;
        for work in work {
            assert_eq!(
                plans.contains(work),
                work == expected,
                "{work} of {job}:\n{plans}"
            );
        }
    }
}

/// No step of any plan read so many rows in vain.
fn removes_fewer_than(most: u64, plans: &str) {
    let removed = plans
        .lines()
        .filter_map(|line| line.split_once("Rows Removed by "));
    for (_, rest) in removed {
        let count = rest.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
        assert!(count.is_some_and(|n| n < most), "{rest}\n{plans}");
    }
}

#[tokio::test]
async fn firings_of_a_few_jobs_keep_a_plan_that_reads_neither_nodes_nor_other_jobs() {
    let server = server_that_logs(true).await;
    let (db, sql) = (server.db().await, server.client().await);
    let at = past(60);
    let job = |n: usize| JobChange {
        job_id: format!("j{n}"),
        spec: spec(),
        next_run: Some(at),
        source: "test.toml".to_owned(),
    };
    let fires = |from: usize, to: usize| -> Vec<_> {
        (from..to)
            .map(|n| firing(&format!("j{n}"), 1, at, &[at]))
            .collect()
    };
    let jobs: Vec<_> = (0..200).map(job).collect();
    apply(&anna(&db), &jobs, false, "tester").await.unwrap();
    sql.exec("ANALYZE farmhand.job").await;
    assert_eq!(fire(&db, &fires(0, 1)).await.unwrap().len(), 1);
    let jobs: Vec<_> = (200..2_000).map(job).collect();
    apply(&anna(&db), &jobs, false, "tester").await.unwrap();
    sql.exec(
        "INSERT INTO farmhand.node (address, name, session, incarnation, open, ttl_ms, lease_until, slots, version, started_at)
         SELECT 'n' || i, 'n', 1, gen_random_uuid(), true, 30000, now(), 1, '1', now() FROM generate_series(1, 2000) i;
         INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
         SELECT 'other' || i % 100, 1, 'submitted', now(), now() FROM generate_series(1, 20000) i"
    ).await;
    let before = log(&server).len();
    assert_eq!(fire(&db, &fires(1, 65)).await.unwrap().len(), 64);
    let text = log(&server);
    let plans = &text[before..];
    assert!(plans.contains("using job_pkey on job"), "{plans}");
    let scans = plans
        .lines()
        .filter(|line| line.contains(" Scan ") && !line.contains("never executed"));
    for scan in scans {
        let read = scan
            .rsplit_once(" rows=")
            // With decimals from PostgreSQL 18 on.
            .and_then(|(_, n)| n.split(' ').next()?.parse::<f64>().ok());
        assert!(
            read.is_some_and(|n| n <= 64.0) && !scan.contains("Seq Scan"),
            "{scan}\n{plans}"
        );
    }
    // Each of 64 with each, at the most, and none of two thousand.
    removes_fewer_than(64 * 64, plans);
    // A set that is no longer small has a plan for its size: none of it is compared with all of it.
    let before = log(&server).len();
    assert_eq!(fire(&db, &fires(65, 2_000)).await.unwrap().len(), 1_935);
    let plans = &log(&server)[before..];
    assert!(plans.contains("farmhand.job j"), "{plans}");
    removes_fewer_than(64 * 64, plans);
}

#[tokio::test]
async fn a_claim_names_its_statement_on_a_connection_of_its_own() {
    let server = PrivateServer::start(Options {
        settings: vec![("log_min_duration_statement".to_owned(), "0".to_owned())],
        ..Options::default()
    })
    .await;
    let db = server.db().await;
    let me = LeaseIdentity {
        address: "a".to_owned(),
        session: 1,
        incarnation: Uuid::new_v4(),
    };
    for _ in 0..2 {
        claim(&db, &me, 8, None).await.unwrap();
    }
    let text = log(&server);
    let claims: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("execute ") && line.contains("-- me:"))
        .collect();
    assert_eq!(claims.len(), 2, "{text}");
    assert!(claims.iter().all(|line| line.contains("execute s")), "{claims:?}");
}
