//! Sequences are raised above what rows and agents know, and never set back.

use std::collections::HashSet;

use farmhand_store::protocol::claim;
use farmhand_tests::pg::connect;

use crate::epochs::{open_epoch, replace, shown};
use crate::fixture::Farm;

const MOST: i64 = 1_000_000_000_000;

#[tokio::test]
async fn a_row_and_a_memory_that_a_login_made_up_use_up_no_numbers() {
    let farm = Farm::new().await;
    farm.due_runs("j", 1).await;
    let agent = connect(&farm.test.url_as("farm_agent")).await;
    for sql in [
        "INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, due_at, ready_at)
            VALUES (9223372036854775807, 'j', 1, 'submitted', now(), now())",
        "INSERT INTO farmhand.event (event_id, at, kind, severity, detail)
            VALUES (9223372036854775807, now(), 'made_up', 'info', '{}')",
        "UPDATE farmhand.farm SET seen_epoch = 9223372036854775807, seen_run = 9223372036854775807",
    ] {
        agent.batch_execute(sql).await.expect(sql);
    }
    for nth in 1..4 {
        replace(&farm).await;
        let key = shown(&farm).await.key();
        let epoch = open_epoch(&farm.db, &key, "a", None)
            .await
            .unwrap()
            .expect("opened");
        assert!(epoch <= 1 + nth * 1_100, "{epoch}");
        for sequence in ["run_id_seq", "event_id_seq"] {
            let drawn = farm.i64(&format!("SELECT nextval('farmhand.{sequence}')")).await;
            assert!(drawn <= nth * (MOST + 1_000), "{sequence}: {drawn}");
        }
    }
}

#[tokio::test]
async fn the_numbers_that_the_farm_counts_on_by_one_cannot_jump_to_their_end() {
    let farm = Farm::new().await;
    let agent = connect(&farm.test.url_as("farm_agent")).await;
    for sql in [
        "UPDATE farmhand.farm SET pulse = 9223372036854775807",
        "UPDATE farmhand.job_seq SET seq = 9223372036854775807",
        "INSERT INTO farmhand.epoch (epoch, server, opened_by) VALUES (4194303, farmhand.server(), 'me')",
    ] {
        let refused = agent.batch_execute(sql).await.expect_err(sql);
        assert_eq!(
            refused.code().map(|c| c.code()),
            Some("42501"),
            "{sql}: {refused:?}"
        );
    }
    agent
        .exec("UPDATE farmhand.farm SET pulse = pulse + 1; UPDATE farmhand.job_seq SET seq = seq + 1")
        .await;
}

#[tokio::test]
async fn a_run_at_the_end_of_its_attempts_keeps_no_other_from_being_claimed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 2).await;
    let agent = connect(&farm.test.url_as("farm_agent")).await;
    let made_up = "UPDATE farmhand.run_live SET attempt = 2147483647 WHERE run_id = (SELECT min(run_id) FROM farmhand.run_live)";
    agent.exec(made_up).await;
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn sequences_that_a_replica_left_behind_are_raised_above_their_rows() {
    let farm = Farm::new().await;
    farm.due_runs("j", 3).await;
    let highest = farm.i64("SELECT max(run_id) FROM farmhand.run_live").await;
    farm.exec("SELECT setval('farmhand.run_id_seq', 1), setval('farmhand.event_id_seq', 1)")
        .await;
    replace(&farm).await;
    let key = shown(&farm).await.key();
    open_epoch(&farm.db, &key, "a", None).await.unwrap();
    farm.is("SELECT nextval('farmhand.run_id_seq')", highest + 1)
        .await;
    let events = farm
        .i64("SELECT coalesce(max(event_id), 0) FROM farmhand.event")
        .await;
    assert!(farm.i64("SELECT nextval('farmhand.event_id_seq')").await > events);
}

/// Agents raise at the same time, and applications submit meanwhile.
#[tokio::test]
async fn no_number_is_given_twice_while_agents_raise_the_sequence_of_runs() {
    let farm = Farm::new().await;
    // The second way is for a copy that is far behind.
    for by in [3, 2_000_000] {
        let raise = async || {
            let client = farm.test.client().await;
            for _ in 0..40 {
                let statement =
                    format!("SELECT farmhand.raise_sequences(last_value + {by}) FROM farmhand.run_id_seq");
                client.exec(&statement).await;
            }
        };
        let draw = async || {
            let client = farm.test.client().await;
            let mut drawn = Vec::new();
            for _ in 0..1000 {
                let row = client
                    .query_one("SELECT nextval('farmhand.run_id_seq')", &[])
                    .await;
                drawn.push(row.unwrap().get::<_, i64>(0));
            }
            drawn
        };
        let (.., mut drawn, more) = tokio::join!(raise(), raise(), raise(), draw(), draw());
        drawn.extend(more);
        let mut once = HashSet::new();
        drawn.retain(|number| !once.insert(*number));
        assert!(drawn.is_empty(), "given twice: {drawn:?}");
    }
}
