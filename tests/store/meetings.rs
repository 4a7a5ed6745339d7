//! Several parents: whoever ends first, on whatever node.

use std::time::Duration;

use farmhand_core::definition::{JobSpec, Overlap, TriggerFault};
use farmhand_store::jobs::{ApplyOutcome, JobChange, apply, retry_run, submit};
use farmhand_store::protocol::{Claimed, Fired, settle};
use farmhand_store::{Db, LeaseIdentity, reading};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::config;
use jiff::Timestamp;
use serde_json::json;
use tokio_postgres::types::{Json, Type};

use crate::fixture::{Farm, past, spec, success};
use crate::rounds::looping;
use crate::triggers::{after, ends, failed, fired, reasons, take};

const FINISH: &str = include_str!("../../common/store/src/sql/finish.sql");

/// `c` runs after `p` and `q`, which are due at `at`.
async fn hourly_parents(farm: &Farm, at: Timestamp) {
    let hourly = JobSpec {
        schedule: vec!["@hourly".to_owned()],
        ..spec()
    };
    for job in ["p", "q"] {
        farm.job(job, hourly.clone(), Some(at)).await;
    }
    farm.job("c", after(&["p", "q"]), None).await;
}

#[tokio::test]
async fn several_parents_meet_at_their_instant_whoever_ends_first() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    hourly_parents(&farm, past(60)).await;
    fired(&farm, &["p"], past(60)).await;
    let p = take(&farm, &me, "p").await;
    // The other one has not even been fired.
    assert_eq!(ends(&farm, success(&me, &p)).await, []);
    farm.says("SELECT waits->>0 FROM farmhand.triggering", Some("q"))
        .await;
    fired(&farm, &["q"], past(60)).await;
    assert_eq!(settle(&farm.db, Some(&["p".to_owned()])).await.unwrap(), []);
    let q = take(&farm, &me, "q").await;
    let made = ends(&farm, success(&me, &q)).await;
    assert_eq!(made[0].run_ids.len(), 1, "{made:?}");
    let row = reading::run_row(&farm.db, made[0].run_ids[0])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.parents, Some(json!({"p": p.run_id, "q": q.run_id})));
    assert_eq!((row.due_at, row.by_hand), (past(60), false));
    farm.is("SELECT count(*) FROM farmhand.triggering", 0).await;
}

#[tokio::test]
async fn an_instant_that_the_other_parent_fails_or_does_not_have_is_recorded_once() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    hourly_parents(&farm, past(90)).await;
    fired(&farm, &["p", "q"], past(90)).await;
    let (p, q) = (take(&farm, &me, "p").await, take(&farm, &me, "q").await);
    assert_eq!(ends(&farm, success(&me, &p)).await, []);
    let made = ends(&farm, failed(&me, &q)).await;
    assert_eq!(
        reasons(&made[0]),
        [format!("trigger: run {} of q failed", q.run_id)]
    );
    farm.is("SELECT count(*) FROM farmhand.run WHERE job_id = 'c'", 1)
        .await;

    // By now the other one is past this instant, without a run at it.
    fired(&farm, &["p"], past(30)).await;
    let p = take(&farm, &me, "p").await;
    let made = ends(&farm, success(&me, &p)).await;
    assert_eq!(reasons(&made[0]), ["trigger: q has no run there"]);
}

/// `p` runs, and `q` has ended, at their instant; and `q` at each of `count` hours before it. `told`: ends of it that nobody
/// has dealt with.
async fn backfilled(farm: &Farm, me: &LeaseIdentity, count: i32, told: bool) -> Claimed {
    hourly_parents(farm, past(90)).await;
    fired(farm, &["p", "q"], past(90)).await;
    let (p, q) = (take(farm, me, "p").await, take(farm, me, "q").await);
    assert_eq!(ends(farm, success(me, &q)).await, []);
    let note = if told { "farmhand.note_ends" } else { "cardinality" };
    let copies = format!(
        "INSERT INTO farmhand.run_history SELECT (json_populate_record(h, json_build_object('run_id', h.run_id + i,
             'due_at', at, 'first_due', at, 'last_due', at))).*
         FROM farmhand.run_history h, generate_series(1, {count}) i, LATERAL (SELECT h.due_at - i * interval '1 hour' AS at) a;
         SELECT {note}(array_agg(ROW(h.*)::farmhand.run_end)) FROM farmhand.run_history h
         WHERE h.due_at < (SELECT max(n.due_at) FROM farmhand.run_history n)"
    );
    farm.test.admin().await.exec(&copies).await;
    p
}

#[tokio::test]
async fn a_backfill_meets_runs_that_have_many_newer_ones_of_the_same_backfill() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let p = backfilled(&farm, &me, 1_500, false).await;
    // As when the other parent's backfill begins after this one's has been dealt with.
    farm.exec("DELETE FROM farmhand.triggering").await;
    let made = ends(&farm, success(&me, &p)).await;
    assert_eq!(
        (made[0].run_ids.len(), reasons(&made[0])),
        (1, vec![]),
        "{made:?}"
    );
}

#[tokio::test]
async fn ends_that_wait_are_settled_however_many_there_are() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    backfilled(&farm, &me, 200, true).await;
    let config =
        config(&farm.test.agent_url()).with_timeouts(Duration::from_secs(3), Duration::from_secs(10));
    let impatient = Db::connect(&config).await.unwrap();
    assert_eq!(settle(&impatient, None).await.unwrap().len(), 200);
    farm.is("SELECT count(*) FROM farmhand.triggering", 1).await;
}

#[tokio::test]
async fn runs_by_hand_meet_on_the_latest_run_of_each() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    for job in ["p", "q"] {
        farm.job(job, spec(), None).await;
    }
    farm.job(
        "c",
        JobSpec {
            overlap: Overlap::Allow,
            ..after(&["p", "q"])
        },
        None,
    )
    .await;
    let run = async |job: &str| {
        submit(&farm.db, job, &json!({}), None, None).await.unwrap();
        take(&farm, &me, job).await
    };
    let first = run("p").await;
    assert_eq!(ends(&farm, success(&me, &first)).await, [], "q has never run");
    let q = run("q").await;
    let made = ends(&farm, success(&me, &q)).await;
    assert_eq!((made.len(), made[0].run_ids.len()), (1, 1), "{made:?}");

    let again = run("p").await;
    let made = ends(&farm, success(&me, &again)).await;
    let row = reading::run_row(&farm.db, made[0].run_ids[0])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.parents, Some(json!({"p": again.run_id, "q": q.run_id})));

    let bad = run("q").await;
    assert_eq!(ends(&farm, failed(&me, &bad)).await, []);
    let later = run("p").await;
    let made = ends(&farm, success(&me, &later)).await;
    assert_eq!(
        reasons(&made[0]),
        [format!("trigger: run {} of q failed", bad.run_id)]
    );
    // Repeating the failed one by hand is how an operator goes on.
    retry_run(&anna(&farm.db), bad.run_id, "eve", false, None)
        .await
        .unwrap();
    let fixed = take(&farm, &me, "q").await;
    assert_eq!(ends(&farm, success(&me, &fixed)).await[0].run_ids.len(), 1);
}

#[tokio::test]
async fn a_diamond_meets_at_its_origin_also_by_hand() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("top", spec(), None).await;
    farm.job("left", after(&["top"]), None).await;
    farm.job("right", after(&["top"]), None).await;
    farm.job("end", after(&["left", "right"]), None).await;
    for _ in 0..2 {
        submit(&farm.db, "top", &json!({}), None, None).await.unwrap();
        let top = take(&farm, &me, "top").await;
        assert_eq!(ends(&farm, success(&me, &top)).await.len(), 2);
        let (left, right) = (take(&farm, &me, "left").await, take(&farm, &me, "right").await);
        assert_eq!(
            ends(&farm, success(&me, &left)).await,
            [],
            "the other side still runs"
        );
        let made = ends(&farm, success(&me, &right)).await;
        assert_eq!((made.len(), made[0].run_ids.len()), (1, 1), "{made:?}");
        let end = take(&farm, &me, "end").await;
        assert_eq!(
            end.parents,
            Some(json!({"left": left.run_id, "right": right.run_id}))
        );
        ends(&farm, success(&me, &end)).await;
    }
}

/// The interleaving that would lose a firing: each of two ends looks before the other is committed.
#[tokio::test]
async fn of_two_parents_that_end_at_once_on_two_nodes_the_second_sees_both() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    for job in ["p", "q"] {
        farm.job(job, spec(), Some(past(60))).await;
    }
    farm.job("c", after(&["p", "q"]), None).await;
    for job in ["p", "q"] {
        farm.fire_at(job, past(60), &[past(60)]).await;
    }
    let (p, q) = (take(&farm, &a, "p").await, take(&farm, &b, "q").await);
    let slow = farm.test.client().await;
    slow.exec("BEGIN").await;
    let written = slow
        .query_typed(FINISH, &[(&Json(json!([success(&a, &p)])), Type::JSON)])
        .await
        .unwrap();
    assert_eq!(written.len(), 1);
    // The other one ends and is settled while the first is not to be seen.
    assert_eq!(ends(&farm, success(&b, &q)).await, []);
    slow.exec("COMMIT").await;
    let parents = ["p".to_owned()];
    let (one, two) = tokio::join!(settle(&farm.db, Some(&parents)), settle(&farm.db, None));
    let made: Vec<Fired> = one.unwrap().into_iter().chain(two.unwrap()).collect();
    assert_eq!((made.len(), made[0].run_ids.len()), (1, 1), "{made:?}");
}

#[tokio::test]
async fn of_several_parents_none_is_continuous() {
    let farm = Farm::new().await;
    farm.job("p", spec(), None).await;
    farm.job("loop", looping(1), None).await;
    farm.job("alone", after(&["loop"]), None).await;
    let change = JobChange {
        job_id: "c".to_owned(),
        spec: after(&["p", "loop"]),
        next_run: None,
        source: "t".to_owned(),
    };
    let fault = TriggerFault::Endless {
        child: "c".to_owned(),
        parent: "loop".to_owned(),
    };
    match apply(&anna(&farm.owner), &[change], false, "t").await.unwrap() {
        ApplyOutcome::Refused(faults) => assert_eq!(faults, [fault]),
        other => panic!("{other:?}"),
    }
}
