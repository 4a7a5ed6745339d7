use farmhand_tests::acting::anna;
use std::collections::HashSet;
use std::time::Duration;

use farmhand_core::definition::{JobSpec, RunOn};
use farmhand_store::jobs::{Withhold, submit, withhold};
use farmhand_store::protocol::{Started, abandon, claim, close, left_over, started};
use jiff::Timestamp;
use serde_json::json;
use tokio_postgres::types::Type;

use crate::fixture::{Farm, past, spec};

/// `count` due runs of one job, made behind the store's back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_claimers_share_the_runs_without_a_double() {
    let farm = Farm::new().await;
    farm.due_runs("j", 400).await;
    let mut racers = Vec::new();
    for n in 0..8 {
        let me = farm.node(&format!("n{n}")).await;
        let db = farm.test.db().await;
        racers.push(tokio::spawn(async move {
            let mut won = Vec::new();
            loop {
                let claimed = claim(&db, &me, 7, None).await.unwrap();
                if claimed.is_empty() {
                    return won;
                }
                won.extend(claimed.into_iter().map(|c| (c.run_id, c.fence)));
            }
        }));
    }
    let mut all = Vec::new();
    for racer in racers {
        all.extend(racer.await.unwrap());
    }
    // A racer may leave early while others hold the last rows locked; nothing is lost by that.
    let left = farm
        .i64("SELECT count(*) FROM farmhand.run_live WHERE state = 'due'")
        .await;
    assert_eq!(all.len(), usize::try_from(400 - left).unwrap());
    assert_eq!(all.iter().map(|w| w.0).collect::<HashSet<_>>().len(), all.len());
    assert_eq!(all.iter().map(|w| w.1).collect::<HashSet<_>>().len(), all.len());
}

#[tokio::test]
async fn urgent_runs_come_first_and_then_the_longest_ready() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    for (job, priority, age) in [("old", 0, 50), ("urgent", 9, 10), ("new", 0, 20)] {
        let at = past(age);
        farm.job(job, JobSpec { priority, ..spec() }, Some(at)).await;
        farm.fire_at(job, at, &[at]).await;
    }
    let order: Vec<String> = claim(&farm.db, &me, 3, None)
        .await
        .unwrap()
        .into_iter()
        .map(|c| c.job_id)
        .collect();
    assert_eq!(order, ["urgent", "old", "new"]);
}

#[tokio::test]
async fn a_limit_holds_over_several_priorities() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    for priority in 0..5 {
        let (at, job) = (past(60), format!("j{priority}"));
        farm.job(&job, JobSpec { priority, ..spec() }, Some(at)).await;
        farm.fire_at(&job, at, &[at]).await;
    }
    let first: Vec<i32> = claim(&farm.db, &me, 2, None)
        .await
        .unwrap()
        .iter()
        .map(|c| c.priority)
        .collect();
    assert_eq!(first, [4, 3]);
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_claim_hands_over_the_definition_and_a_growing_fence() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let first = farm.held_run(&me, "j", spec()).await;
    let second = farm.held_run(&me, "k", spec()).await;
    assert!(second.fence > first.fence);
    assert_eq!(
        first.fence >> 40,
        farm.i64("SELECT epoch FROM farmhand.epoch").await
    );
    assert_eq!(first.spec["command"], json!(["true"]));
    assert_eq!(
        (first.attempt, first.retries, first.takeovers, first.rev),
        (1, 0, 0, 1)
    );
}

#[tokio::test]
async fn a_run_goes_only_where_its_labels_are() {
    let farm = Farm::new().await;
    let plain = farm.node("plain").await;
    let batch = farm
        .node_with("batch", json!({"role": "batch", "zone": "x"}))
        .await;
    let at = past(60);
    let wanted = JobSpec {
        placement: [("role".to_owned(), "batch".to_owned())].into(),
        ..spec()
    };
    farm.job("j", wanted, Some(at)).await;
    farm.fire_at("j", at, &[at]).await;
    assert_eq!(claim(&farm.db, &plain, 9, None).await.unwrap(), vec![]);
    assert_eq!(claim(&farm.db, &batch, 9, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_each_node_job_runs_once_on_every_ready_node_and_nowhere_else() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.node("c").await;
    assert!(
        withhold(&anna(&farm.db), "c", Withhold::Cordon, "eve")
            .await
            .unwrap()
    );
    let at = past(60);
    let each = JobSpec {
        run_on: RunOn::EachNode,
        ..spec()
    };
    farm.job("j", each, Some(at)).await;
    assert_eq!(farm.fire_at("j", at, &[at]).await[0].run_ids.len(), 2);
    assert_eq!(claim(&farm.db, &a, 9, None).await.unwrap().len(), 1);
    assert_eq!(claim(&farm.db, &b, 9, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_each_node_run_whose_node_is_gone_for_long_is_lost_and_no_sooner() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let at = past(7200);
    let each = JobSpec {
        run_on: RunOn::EachNode,
        ..spec()
    };
    farm.job("j", each, Some(at)).await;
    farm.fire_at("j", at, &[at]).await;
    close(&farm.db, &b).await.unwrap();
    let hour = Duration::from_secs(3600);
    assert_eq!(abandon(&farm.db, hour).await.unwrap(), 0);
    assert!(!left_over(&farm.db, hour).await.unwrap().to_abandon);
    // The lease ended two hours ago, but the database was away until now: that is when the node was found to be gone.
    let gone = async |found: &str| {
        let sql =
            format!("UPDATE farmhand.node SET lease_until = now() - interval '2 hours', lost_at = {found}");
        farm.exec(&sql).await;
    };
    gone("now()").await;
    assert!(!left_over(&farm.db, hour).await.unwrap().to_abandon);
    assert_eq!(abandon(&farm.db, hour).await.unwrap(), 0);
    // NULL: it closed its session itself.
    gone("NULL").await;
    assert!(left_over(&farm.db, hour).await.unwrap().to_abandon);
    assert_eq!(abandon(&farm.db, hour).await.unwrap(), 1);
    let told = farm.ends_told().await.unwrap();
    assert!(told.ends_with("lost its node is gone"), "{told}");
    farm.says("SELECT state FROM farmhand.run_history", Some("lost"))
        .await;
    assert_eq!(claim(&farm.db, &a, 9, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_is_claimed_before_it_is_ready() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 1).await;
    farm.sql
        .exec_with(
            "UPDATE farmhand.run_live SET ready_at = now() + interval '1 hour'",
            &[],
        )
        .await;
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap(), vec![]);
}

#[tokio::test]
async fn only_the_runs_asked_for_are_claimed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 5).await;
    let one = farm.i64("SELECT max(run_id) FROM farmhand.run_live").await;
    let claimed = claim(&farm.db, &me, 9, Some(&[one, 999_999])).await.unwrap();
    assert_eq!(claimed.iter().map(|c| c.run_id).collect::<Vec<_>>(), [one]);
    assert_eq!(claim(&farm.db, &me, 9, Some(&[])).await.unwrap(), vec![]);
}

#[tokio::test]
async fn cordoned_and_draining_nodes_claim_nothing_until_told_otherwise() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 1).await;
    withhold(&anna(&farm.db), "a", Withhold::Cordon, "eve")
        .await
        .unwrap();
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap(), vec![]);
    let drain = Withhold::Drain { within: None };
    withhold(&anna(&farm.db), "a", drain, "eve").await.unwrap();
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap(), vec![]);
    // Nor is anything ended any more when a drain that ends runs gives way to a cordon, which does not.
    let soon = Some(std::time::Duration::from_secs(600));
    withhold(&anna(&farm.db), "a", Withhold::Drain { within: soon }, "eve")
        .await
        .unwrap();
    withhold(&anna(&farm.db), "a", Withhold::Cordon, "eve")
        .await
        .unwrap();
    let drains =
        "SELECT count(*) FROM farmhand.node WHERE draining OR drain_until IS NOT NULL OR NOT cordoned";
    farm.is(drains, 0).await;
    withhold(&anna(&farm.db), "a", Withhold::Resume, "eve")
        .await
        .unwrap();
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap().len(), 1);
    assert!(
        !withhold(&anna(&farm.db), "nobody", Withhold::Cordon, "eve")
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn a_start_is_recorded_for_the_holder_only() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let run = farm.held_run(&a, "j", spec()).await;
    let start = Started {
        run_id: run.run_id,
        attempt: 1,
        fence: run.fence,
        started_at: past(1),
    };
    assert_eq!(
        started(&farm.db, &b, std::slice::from_ref(&start)).await.unwrap(),
        []
    );
    assert_eq!(
        started(&farm.db, &a, std::slice::from_ref(&start))
            .await
            .unwrap()
            .len(),
        1
    );
    let row = farm
        .sql
        .query_one(
            "SELECT running_at, last_run_started FROM farmhand.job_status",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, &str>(0), "a");
    assert_eq!(row.get::<_, Timestamp>(1), start.started_at);
    // An agent that takes the warden over says it again.
    let again = Started {
        started_at: past(0),
        ..start
    };
    assert_eq!(started(&farm.db, &a, &[again]).await.unwrap(), []);
    let shown =
        "SELECT count(*) FROM farmhand.run r JOIN farmhand.job_status s ON r.started_at = s.last_run_started";
    farm.is(shown, 1).await;
}

/// Every relation and index that a plan touches.
fn touched(plan: &serde_json::Value, into: &mut HashSet<String>) {
    match plan {
        serde_json::Value::Object(node) => {
            for key in ["Relation Name", "Index Name"] {
                into.extend(node.get(key).and_then(|v| v.as_str()).map(str::to_owned));
            }
            node.values().for_each(|v| touched(v, into));
        }
        serde_json::Value::Array(nodes) => nodes.iter().for_each(|v| touched(v, into)),
        _ => {}
    }
}

#[tokio::test]
async fn a_claim_touches_no_history_and_scans_no_queue() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 100).await;
    farm.exec(
        "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at,
             state, ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due)
         SELECT nextval('farmhand.run_id_seq'), 'old' || i % 100, 1, 'scheduled', 0, 1, now(), now(), 'succeeded',
             'holder', 1, 0, 0, '{}', now(), now(), now(), now()
         FROM generate_series(1, 100000) i;
         -- 50,000 runs that wait for a time far away, 50,000 held by others.
         INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
         SELECT 'j', 1, 'submitted', now(), now() + interval '1 day' FROM generate_series(1, 50000);
         INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, state, running_at, session, attempt,
             fence, claimed_at)
         SELECT 'j', 1, 'submitted', now(), now(), 'running', 'z' || i % 50, 1, 1, i, now()
         FROM generate_series(1, 50000) i;
         ANALYZE farmhand.run_live; ANALYZE farmhand.node; ANALYZE farmhand.job_revision"
    ).await;

    let statement = include_str!("../../common/store/src/sql/claim.sql");
    let none: Option<Vec<i64>> = None;
    let row = farm
        .sql
        .query_typed_one(
            &format!("EXPLAIN (ANALYZE, FORMAT JSON, BUFFERS) {statement}"),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.incarnation, Type::UUID),
                (&8_i64, Type::INT8),
                (&none, Type::INT8_ARRAY),
            ],
        )
        .await
        .unwrap();
    let plan: serde_json::Value = row.get(0);
    let mut names = HashSet::new();
    touched(&plan, &mut names);
    assert!(!names.iter().any(|n| n.starts_with("run_history")), "{names:?}");
    assert!(names.contains("run_live_claim"), "{names:?}");
    let text = plan.to_string();
    assert!(!text.contains("\"Seq Scan\",\"Parallel Aware\":false,\"Parent Relationship\":\"Outer\",\"Relation Name\":\"run_live\""));
    let buffers = plan[0]["Plan"]["Shared Hit Blocks"].as_i64().unwrap()
        + plan[0]["Plan"]["Shared Read Blocks"].as_i64().unwrap();
    assert!(
        buffers < 1000,
        "{buffers} buffers to claim 8 of 100,100 live runs:\n{plan:#}"
    );
}

#[tokio::test]
async fn a_thousand_claims_are_one_statement() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 1000).await;
    let before = std::time::Instant::now();
    assert_eq!(claim(&farm.db, &me, 1000, None).await.unwrap().len(), 1000);
    assert!(
        before.elapsed() < Duration::from_secs(30),
        "{:?}",
        before.elapsed()
    );
}

#[tokio::test]
async fn shards_are_left_to_the_nodes_whose_they_are_for_three_seconds() {
    let farm = Farm::new().await;
    let nodes = [farm.node("a").await, farm.node("b").await, farm.node("c").await];
    let sharded = JobSpec {
        instances: 6,
        ..spec()
    };
    farm.job("j", sharded, None).await;
    let first = submit(&farm.db, "j", &serde_json::json!({}), None, Some("once"))
        .await
        .unwrap();
    let again = submit(&farm.db, "j", &serde_json::json!({}), None, Some("once"))
        .await
        .unwrap();
    assert_eq!(again, first);
    farm.is("SELECT count(*) FROM farmhand.run_live", 6).await;
    let mut instances = Vec::new();
    for me in &nodes[..2] {
        let own = claim(&farm.db, me, 99, None).await.unwrap();
        assert_eq!(own.len(), 2, "{own:?}");
        assert!(
            own.iter()
                .all(|run| run.instances == 6 && run.firing == Some(first))
        );
        instances.extend(own.iter().map(|run| run.instance));
    }
    // The third node has no room: after a while its shards are anybody's.
    farm.exec("UPDATE farmhand.run_live SET ready_at = ready_at - interval '4 seconds' WHERE state = 'due'")
        .await;
    let left = claim(&farm.db, &nodes[0], 99, None).await.unwrap();
    instances.extend(left.iter().map(|run| run.instance));
    instances.sort_unstable();
    assert_eq!(instances, [0, 1, 2, 3, 4, 5]);
}
