//! A failover that lost a claim: its attempt's number is given a second time, its fence is not.

use std::time::Duration;

use farmhand_core::definition::JobSpec;
use farmhand_store::LeaseIdentity;
use farmhand_store::progress::{Progress, record_progress};
use farmhand_store::protocol::{
    Attempt, Claimed, FinishResult, Lose, LostWhy, NodeReport, Now, Release, Renewed, Started, claim, lose,
    release, renew, retry, started,
};
use farmhand_store::tasks::{TaskEnd, record_tasks};

use crate::fixture::{Farm, TTL, failure, one, past, spec, success};
use crate::rounds::{done, looping};

/// Two claims of one run by one session with one number: what a standby that had not yet got the first makes of it.
async fn claimed_twice(farm: &Farm, me: &LeaseIdentity, spec: JobSpec) -> (Claimed, Claimed) {
    farm.job("j", spec, None).await;
    if farm.i64("SELECT count(*) FROM farmhand.run_live").await == 0 {
        let submit = farm.sql.query("SELECT farmhand.submit('j')", &[]).await;
        submit.unwrap();
    }
    let first = claim(&farm.db, me, 1, None).await.unwrap().remove(0);
    farm.exec(
        "UPDATE farmhand.run_live SET state = 'due', running_at = NULL, session = NULL, attempt = 0, fence = NULL,
            claimed_at = NULL"
    ).await;
    let second = claim(&farm.db, me, 1, None).await.unwrap().remove(0);
    assert_eq!((first.run_id, first.attempt), (second.run_id, second.attempt));
    assert!(second.fence > first.fence);
    (first, second)
}

fn refused(me: &LeaseIdentity, run: &Claimed) -> FinishResult {
    FinishResult::Fenced {
        now: Now::Running {
            attempt: run.attempt,
            address: me.address.clone(),
            session: me.session,
        },
    }
}

#[tokio::test]
async fn no_end_of_a_lost_claim_ends_the_attempt_that_has_its_number() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let (lost, held) = claimed_twice(&farm, &me, spec()).await;
    assert_eq!(one(&farm, success(&me, &lost)).await, refused(&me, &held));
    let late = failure(&me, &lost, Duration::ZERO);
    assert_eq!(retry(&farm.db, &[late]).await.unwrap()[0].1, refused(&me, &held));
    let dead = Lose {
        run_id: lost.run_id,
        attempt: lost.attempt,
        fence: lost.fence,
        address: me.address.clone(),
        session: me.session,
        why: LostWhy::Fenced,
    };
    assert_eq!(lose(&farm.db, &[dead]).await.unwrap()[0].1, refused(&me, &held));
    let given = [Attempt::from(&lost)];
    let given = release(&farm.db, &me, &given, Release::NeverStarted)
        .await
        .unwrap();
    assert_eq!(given[0].1, refused(&me, &held));
    assert_eq!(one(&farm, success(&me, &held)).await, FinishResult::Done);
    // Nor does it take the other's end for its own.
    assert!(matches!(
        one(&farm, success(&me, &lost)).await,
        FinishResult::Fenced {
            now: Now::Final { .. }
        }
    ));
}

#[tokio::test]
async fn no_end_of_a_lost_round_ends_the_round_that_has_its_number() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let (lost, held) = claimed_twice(&farm, &me, looping(1)).await;
    assert_eq!(one(&farm, done(&me, &lost)).await, refused(&me, &held));
    assert_eq!(one(&farm, done(&me, &held)).await, FinishResult::Done);
}

#[tokio::test]
async fn nothing_that_a_lost_claim_reports_is_stored() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let (lost, held) = claimed_twice(&farm, &me, spec()).await;
    let stored = async |run: &Claimed| {
        let report = Progress {
            run_id: run.run_id,
            attempt: run.attempt,
            fence: run.fence,
            address: me.address.clone(),
            session: me.session,
            checkpoint: Some("7".to_owned()),
        };
        let task = TaskEnd {
            task: "t".to_owned(),
            outcome: "succeeded".to_owned(),
            started_at: None,
            ended_at: past(1),
            exit_code: Some(0),
            signal: None,
            cpu_ms: None,
            max_rss_bytes: None,
            reason: None,
            blame: Vec::new(),
        };
        let start = Started {
            run_id: run.run_id,
            attempt: run.attempt,
            fence: run.fence,
            started_at: past(1),
        };
        (
            record_progress(&farm.db, &[report]).await.unwrap().len(),
            record_tasks(&farm.db, Attempt::from(run), me.session, &[task])
                .await
                .unwrap(),
            started(&farm.db, &me, &[start]).await.unwrap().len(),
        )
    };
    assert_eq!(stored(&lost).await, (0, 0, 0));
    assert_eq!(stored(&held).await, (1, 1, 1));
}

#[tokio::test]
async fn a_renewal_tells_which_of_two_attempts_with_one_number_is_held() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let (_, held) = claimed_twice(&farm, &me, spec()).await;
    let Renewed::Alive { held: shown, .. } = renew(&farm.db, &me, TTL, &NodeReport::default()).await.unwrap()
    else {
        panic!("the session is open")
    };
    let shown: Vec<_> = shown.iter().map(|h| (h.run_id, h.attempt, h.fence)).collect();
    assert_eq!(shown, [(held.run_id, held.attempt, held.fence)]);
}
