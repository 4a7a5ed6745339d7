//! Sequences are raised above what rows and agents know, and never set back.

use std::collections::HashSet;

use crate::epochs::{open_epoch, replace, shown};
use crate::fixture::Farm;

#[tokio::test]
async fn sequences_that_a_replica_left_behind_are_raised_above_their_rows() {
    let farm = Farm::new().await;
    farm.due_runs("j", 3).await;
    let highest = farm.i64("SELECT max(run_id) FROM farmhand.run_live").await;
    farm.sql
        .batch_execute("SELECT setval('farmhand.run_id_seq', 1), setval('farmhand.event_id_seq', 1)")
        .await
        .unwrap();
    replace(&farm).await;
    let key = shown(&farm).await.key();
    open_epoch(&farm.db, &key, "a", None).await.unwrap();
    assert_eq!(
        farm.i64("SELECT nextval('farmhand.run_id_seq')").await,
        highest + 1
    );
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
                client.batch_execute(&statement).await.unwrap();
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
