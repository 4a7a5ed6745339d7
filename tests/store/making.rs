//! The tables by which runs are made: the database's and the core's are the same.

use farmhand_core::definition::Enabled;
use farmhand_core::definition::JobSpec;
use farmhand_core::health::JobState;
use farmhand_core::making::{Maker, may_make};
use farmhand_store::jobs::{Backfilled, backfill, pause, submit};
use serde_json::json;

use crate::fixture::{Farm, past, spec};

#[tokio::test]
async fn what_a_state_means_for_a_maker_is_one_table() {
    let farm = Farm::new().await;
    let states = JobState::ALL.iter().copied().map(Some).chain([None]);
    for (maker, state) in (Maker::ALL.iter()).flat_map(|maker| states.clone().map(move |state| (*maker, state)))
    {
        for observes in [false, true] {
            let row = farm
                .sql
                .query_one(
                    "SELECT farmhand.may_make($1, $2, $3)",
                    &[&maker.as_str(), &state.map_or("deleted", JobState::as_str), &observes],
                )
                .await
                .unwrap();
            let making = may_make(maker, state, observes);
            assert_eq!(row.get::<_, &str>(0), making.as_str(), "{maker} {state:?} {observes}");
        }
    }
}

/// A pause hides that a job observes, and nothing of it is executed all the same.
#[tokio::test]
async fn a_paused_job_that_observes_makes_nothing_by_hand() {
    let farm = Farm::new().await;
    let observes = JobSpec {
        enabled: Enabled::Observe,
        ..spec()
    };
    let rev = farm.job("j", observes, Some(past(60))).await;
    pause(&farm.db, "j", "somebody", None).await.unwrap();
    let submitted = submit(&farm.db, "j", &json!({}), None, None).await;
    assert!(submitted.unwrap_err().to_string().contains("observes"));
    let filled = backfill(&farm.db, "j", rev, &[past(120)], "somebody").await;
    assert_eq!(filled.unwrap(), Backfilled::Observes);
}
