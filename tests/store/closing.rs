//! A holder closes its session only if it knows all that the session holds.

use farmhand_store::protocol::{Attempt, Closed, Freed, Release, claim, close_if, release};

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
    assert_eq!(close_if(&farm.db, &me, may_free).await.unwrap(), Closed::Shared);
    assert_eq!(farm.state(first.run_id).await.0, "running");

    let may_free = |freed: &Freed| freed.fence == second.fence;
    let Closed::Done { freed } = close_if(&farm.db, &me, may_free).await.unwrap() else {
        panic!("not closed")
    };
    assert_eq!(freed.len(), 1);
    assert_eq!(farm.state(first.run_id).await.0, "due");
    assert_eq!(close_if(&farm.db, &me, |_| true).await.unwrap(), Closed::Already);
}
