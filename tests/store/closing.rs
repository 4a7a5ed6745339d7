//! A holder closes its session only if it knows all that the session holds; a person ends the one that was confirmed.

use farmhand_store::protocol::{
    Attempt, Closed, Expired, Freed, Release, claim, close_if, force_expire, release,
};
use farmhand_tests::acting::anna;

use crate::fixture::{Farm, spec};

#[tokio::test]
async fn a_session_that_holds_the_next_attempt_of_a_run_that_was_given_back_is_not_closed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let first = farm.held_run(&me, "j", spec()).await;
    let known = Attempt::from(&first);
    let may_free = |freed: &Freed| (freed.run_id, freed.fence) == (known.run_id, known.fence);
    release(&farm.db, &me, &[known], Release::NeverStarted)
        .await
        .unwrap();
    // A newer agent of this machine, or one of its copy, in the same session.
    let second = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    assert_eq!((second.run_id, second.attempt), (first.run_id, 2));
    assert_eq!(
        close_if(&farm.db, &me, &[], may_free).await.unwrap(),
        Closed::Shared
    );
    assert_eq!(farm.state(first.run_id).await.0, "running");

    let may_free = |freed: &Freed| freed.fence == second.fence;
    let Closed::Done { freed } = close_if(&farm.db, &me, &[], may_free).await.unwrap() else {
        panic!("not closed")
    };
    assert_eq!(freed.len(), 1);
    assert_eq!(farm.state(first.run_id).await.0, "due");
    assert_eq!(
        close_if(&farm.db, &me, &[], |_| true).await.unwrap(),
        Closed::Already
    );
}

#[tokio::test]
async fn a_forced_release_ends_the_session_that_was_confirmed_and_no_later_one() {
    let farm = Farm::new().await;
    let confirmed = farm.node("a").await;
    assert!(matches!(
        close_if(&farm.db, &confirmed, &[], |_| true).await.unwrap(),
        Closed::Done { .. }
    ));
    let later = farm.node("a").await;
    let run = farm.held_run(&later, "j", spec()).await;
    let before = force_expire(&anna(&farm.db), "a", confirmed.session)
        .await
        .unwrap();
    assert_eq!(before, Expired::Changed);
    assert_eq!(farm.state(run.run_id).await.0, "running");

    let Expired::Done { freed } = force_expire(&anna(&farm.db), "a", later.session).await.unwrap() else {
        panic!("not ended")
    };
    assert_eq!(freed.iter().map(|f| f.run_id).collect::<Vec<_>>(), [run.run_id]);
    assert_eq!(farm.state(run.run_id).await.0, "due");
}
