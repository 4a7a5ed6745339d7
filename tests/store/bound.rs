//! Logins that are bound to their nodes: what it costs without, and that statements are the same with it.

use std::time::Duration;

use farmhand_core::definition::{JobSpec, OnLost, Overlap};
use farmhand_store::bound::{bind_node, bound_nodes, may_act_as, unbind_node};
use farmhand_store::jobs::{Backfilled, backfill, submit};
use farmhand_store::logs::{LogChunk, append_log};
use farmhand_store::protocol::{
    Expired, Freed, NodeReport, Renewed, Started, claim, close, expire, finish, fire, open, renew, retry,
    settle, started,
};
use farmhand_store::{Db, LogStream, StoreError, partitions};
use farmhand_tests::pg::config;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Farm, TTL, failure, firing, info, opened, past, spec, success};

/// The names of all triggers that check logins, those of partitions too, that are enabled and that are not.
async fn triggers(farm: &Farm) -> (i64, i64) {
    let count = |enabled: &str| {
        format!(
            "SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
             WHERE c.relnamespace = 'farmhand'::regnamespace AND t.tgname LIKE 'as\\_node%' AND (t.tgenabled <> 'D') = {enabled}"
        )
    };
    (farm.i64(&count("true")).await, farm.i64(&count("false")).await)
}

async fn agent(farm: &Farm, login: &str) -> Db {
    Db::connect(&config(&farm.test.url_as(login))).await.unwrap()
}

#[tokio::test]
async fn triggers_are_disabled_until_the_first_login_is_bound_and_again_after_the_last() {
    let farm = Farm::new().await;
    let operator = agent(&farm, "farm_operator").await;
    let (on, off) = triggers(&farm).await;
    assert!(on == 0 && off > 14, "{on} enabled, {off} disabled");
    bind_node(&operator, "n1", "farm_n1", "anna").await.unwrap();
    assert_eq!(triggers(&farm).await, (off, 0));
    bind_node(&operator, "n2", "farm_n2", "anna").await.unwrap();
    // Partitions of weeks to come have them too.
    partitions::ensure_partitions(&farm.owner, partitions::AHEAD + 3)
        .await
        .unwrap();
    let (more, none) = triggers(&farm).await;
    assert!(more > off && none == 0, "{more} enabled, {none} disabled");
    assert!(unbind_node(&operator, "n1").await.unwrap());
    assert!(
        !unbind_node(&operator, "n1").await.unwrap(),
        "it was not bound any more"
    );
    assert_eq!(triggers(&farm).await, (more, 0));
    let left: Vec<String> = bound_nodes(&farm.db)
        .await
        .unwrap()
        .into_iter()
        .map(|n| n.address)
        .collect();
    assert_eq!(left, ["n2"]);
    assert!(unbind_node(&operator, "n2").await.unwrap());
    assert_eq!(triggers(&farm).await, (0, more));
}

#[tokio::test]
async fn a_bound_login_does_all_for_its_node_and_takes_over_what_is_overdue() {
    let farm = Farm::new().await;
    let operator = agent(&farm, "farm_operator").await;
    for n in ["n1", "n2"] {
        bind_node(&operator, n, &format!("farm_{n}"), "anna")
            .await
            .unwrap();
    }
    let (one, two) = (agent(&farm, "farm_n1").await, agent(&farm, "farm_n2").await);
    may_act_as(&one, "n1").await.unwrap();
    let refused = may_act_as(&one, "n2").await.unwrap_err();
    assert!(matches!(refused, StoreError::Forbidden { .. }), "{refused:?}");
    may_act_as(&operator, "n2").await.unwrap();

    let me = opened(&one, info("n1", Uuid::new_v4(), json!({}))).await;
    let refused = open(&two, &info("n1", me.incarnation, json!({})))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("bound to the node \"n2\""),
        "{refused}"
    );
    farm.due_runs("j", 4).await;
    let runs = claim(&one, &me, 4, None).await.unwrap();
    assert_eq!(runs.len(), 4);
    let begun = Started {
        run_id: runs[0].run_id,
        attempt: runs[0].attempt,
        fence: runs[0].fence,
        started_at: past(1),
    };
    started(&one, &me, &[begun]).await.unwrap();
    finish(&one, &[success(&me, &runs[0])]).await.unwrap();
    retry(&one, &[failure(&me, &runs[1], Duration::ZERO)])
        .await
        .unwrap();
    assert!(matches!(
        renew(&one, &me, TTL, &NodeReport::default()).await.unwrap(),
        Renewed::Alive { .. }
    ));

    // The other one, while the lease lasts, and when it is over.
    let other = opened(&two, info("n2", Uuid::new_v4(), json!({}))).await;
    let renewals = farm.renewals("n1").await;
    let early = expire(&two, "n1", me.session, me.incarnation, renewals)
        .await
        .unwrap_err();
    assert!(early.to_string().contains("is not over"), "{early}");
    let admin = farm.test.admin().await;
    admin
        .exec(
            "SET session_replication_role = replica;
         UPDATE farmhand.node SET lease_until = clock_timestamp() - interval '1 second' WHERE address = 'n1'",
        )
        .await;
    let Expired::Done { freed } = expire(&two, "n1", me.session, me.incarnation, renewals)
        .await
        .unwrap()
    else {
        panic!("it is overdue")
    };
    assert_eq!(freed.len(), 2, "{freed:?}");
    let ids: Vec<i64> = freed.iter().map(|f: &Freed| f.run_id).collect();
    let again = claim(&two, &other, 4, Some(&ids)).await.unwrap();
    assert_eq!(again.len(), 2);
    finish(&two, &[success(&other, &again[0])]).await.unwrap();
    close(&two, &other).await.unwrap();
    // Its own login opens it again.
    opened(&one, info("n1", Uuid::new_v4(), json!({}))).await;
}

#[tokio::test]
async fn an_agent_fires_triggers_and_backfills_a_job_whose_run_by_hand_a_bound_node_holds() {
    let farm = Farm::new().await;
    let operator = agent(&farm, "farm_operator").await;
    bind_node(&operator, "n1", "farm_n1", "anna").await.unwrap();
    let one = agent(&farm, "farm_n1").await;
    let me = opened(&one, info("n1", Uuid::new_v4(), json!({}))).await;
    let other = farm.node("other").await;
    let parent = farm.held_run(&other, "p", spec()).await;
    let queues = JobSpec {
        overlap: Overlap::Queue,
        triggered_by: vec!["p".to_owned()],
        ..spec()
    };
    farm.job("j", queues, Some(past(60))).await;
    submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    let by_hand = claim(&one, &me, 1, None).await.unwrap().remove(0);
    let allow = format!(
        "UPDATE farmhand.run_live SET overlap = 'allow' WHERE run_id = {}",
        by_hand.run_id
    );
    let again = async || farm.test.admin().await.exec(&allow).await;

    let fired = fire(&farm.db, &[firing("j", 1, past(60), &[past(60)])])
        .await
        .unwrap();
    assert_eq!(fired[0].run_ids.len(), 1);
    again().await;
    finish(&farm.db, &[success(&other, &parent)]).await.unwrap();
    assert_eq!(settle(&farm.db, None).await.unwrap()[0].run_ids.len(), 1);
    again().await;
    let filled = backfill(&farm.db, "j", 1, &[past(600)], "eve").await.unwrap();
    assert!(matches!(filled, Backfilled::Done { run_ids } if run_ids.len() == 1));
    // The node ends it all the same.
    finish(&one, &[success(&me, &by_hand)]).await.unwrap();
}

/// A run that its loss ends, of a node whose session is over: any agent writes its end.
#[tokio::test]
async fn any_agent_ends_what_is_lost_with_a_bound_node() {
    let farm = Farm::new().await;
    let operator = agent(&farm, "farm_operator").await;
    bind_node(&operator, "n1", "farm_n1", "anna").await.unwrap();
    let one = agent(&farm, "farm_n1").await;
    let me = opened(&one, info("n1", Uuid::new_v4(), json!({}))).await;
    let fails = JobSpec {
        on_lost: OnLost::Fail,
        ..spec()
    };
    farm.job("j", fails, Some(past(60))).await;
    let fired = farm.fire_at("j", past(60), &[past(60)]).await;
    let run = claim(&one, &me, 1, Some(&fired[0].run_ids))
        .await
        .unwrap()
        .remove(0);
    // A renewal in the future: the database's clock was set back since.
    let admin = farm.test.admin().await;
    admin
        .exec(
            "SET session_replication_role = replica;
         UPDATE farmhand.node SET lease_until = clock_timestamp() + interval '1 day' WHERE address = 'n1'",
        )
        .await;
    let renewals = farm.renewals("n1").await;
    let Expired::Done { .. } = expire(&farm.db, "n1", me.session, me.incarnation, renewals)
        .await
        .unwrap()
    else {
        panic!("its lease says nothing")
    };
    assert_eq!(farm.state(run.run_id).await.0, "lost");
}

/// After a failover that lost a claim another node's attempt has its number. Waiting for the right to write would be for ever.
#[tokio::test]
async fn output_under_another_nodes_number_is_refused_and_no_right_to_wait_for() {
    let farm = Farm::new().await;
    let operator = agent(&farm, "farm_operator").await;
    for n in ["n1", "n2"] {
        bind_node(&operator, n, &format!("farm_{n}"), "anna")
            .await
            .unwrap();
    }
    let (one, two) = (agent(&farm, "farm_n1").await, agent(&farm, "farm_n2").await);
    let other = opened(&two, info("n2", Uuid::new_v4(), json!({}))).await;
    farm.due_runs("j", 1).await;
    let run = claim(&two, &other, 1, None).await.unwrap().remove(0);
    let chunk = LogChunk {
        run_id: run.run_id,
        attempt: run.attempt,
        seq: 0,
        stream: LogStream::Stdout,
        at: past(1),
        bytes: b"x".to_vec(),
    };
    let said = append_log(&one, &[chunk]).await.unwrap_err();
    assert!(
        said.is_refusal() && said.to_string().contains("bound to the node"),
        "{said:?}"
    );
}
