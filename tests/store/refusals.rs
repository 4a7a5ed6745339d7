//! What a node would not run it leaves to the others, for as long as one of them might.

use farmhand_core::definition::JobSpec;
use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{Claimed, GiveBack, claim, claim_any, finish, give_back};
use farmhand_store::signatures::{forget_refusals, refuse};
use serde_json::json;

use crate::fixture::{Farm, expire_now, spec, success};
use crate::gates::pooled;

/// Refuses a run that `me` holds; gives it back when another node might run it, which is the answer.
async fn refuses(farm: &Farm, me: &LeaseIdentity, run: &Claimed) -> bool {
    let others = refuse(&farm.db, run.run_id, run.attempt, &me.address, "not signed")
        .await
        .unwrap();
    if others {
        let back = GiveBack {
            run_id: run.run_id,
            attempt: run.attempt,
            fence: run.fence,
            address: me.address.clone(),
            session: me.session,
            reason: "not signed".to_owned(),
            delay: std::time::Duration::ZERO,
        };
        give_back(&farm.db, &[back]).await.unwrap();
    }
    others
}

async fn claims(farm: &Farm, me: &LeaseIdentity) -> Vec<Claimed> {
    claim_any(&farm.db, me, 8, true).await.unwrap()
}

/// Two nodes, a job, and a run of it that `a` has refused and given back.
async fn refused(spec: JobSpec) -> (Farm, LeaseIdentity, LeaseIdentity) {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.pool("p", 3).await;
    farm.needy("j", spec).await;
    farm.needy("other", crate::fixture::spec()).await;
    farm.submitted("j").await;
    let held = claims(&farm, &a).await;
    assert!(refuses(&farm, &a, &held[0]).await, "b might");
    (farm, a, b)
}

#[tokio::test]
async fn a_node_leaves_runs_of_a_revision_that_it_refused_to_those_that_have_not() {
    for spec in [spec(), pooled("p")] {
        let (farm, a, b) = refused(spec).await;
        farm.submitted("j").await;
        assert_eq!(claims(&farm, &a).await, vec![], "at once, and ever so often");
        let other = farm.submitted("other").await;
        assert_eq!(claims(&farm, &a).await[0].run_id, other, "other jobs go on here");
        assert_eq!(claims(&farm, &b).await.len(), 2);
    }
}

#[tokio::test]
async fn what_every_node_has_refused_is_anybodys_so_that_it_ends() {
    let (farm, a, b) = refused(spec()).await;
    let held = claims(&farm, &b).await;
    assert!(!refuses(&farm, &b, &held[0]).await, "nobody is left");
    finish(&farm.db, &[success(&b, &held[0])]).await.unwrap();
    for me in [&a, &b] {
        farm.submitted("j").await;
        let held = claims(&farm, me).await;
        assert_eq!(held.len(), 1, "{}", me.address);
        assert!(!refuses(&farm, me, &held[0]).await);
    }
}

#[tokio::test]
async fn a_run_is_not_left_to_a_node_that_is_gone_or_does_not_fit() {
    let (farm, a, b) = refused(spec()).await;
    assert_eq!(claims(&farm, &a).await, vec![]);
    expire_now(&farm, &b).await;
    assert_eq!(claims(&farm, &a).await.len(), 1, "b is gone");

    let farm = Farm::new().await;
    let a = farm.node_with("a", json!({"role": "batch"})).await;
    farm.node("b").await;
    let batch = JobSpec {
        placement: [("role".to_owned(), "batch".to_owned())].into(),
        ..spec()
    };
    farm.needy("j", batch).await;
    farm.submitted("j").await;
    let held = claims(&farm, &a).await;
    assert!(!refuses(&farm, &a, &held[0]).await, "b has no such label");
    farm.submitted("j").await;
    assert_eq!(claims(&farm, &a).await.len(), 1);
}

#[tokio::test]
async fn a_refusal_is_forgotten_after_ten_minutes_and_when_the_nodes_keys_change() {
    let (farm, a, b) = refused(spec()).await;
    let age = "UPDATE farmhand.refusal SET at = at - interval '601 seconds'";
    farm.exec(age).await;
    let held = claims(&farm, &a).await;
    assert_eq!(held.len(), 1, "ten minutes ago");
    assert!(refuses(&farm, &a, &held[0]).await);
    assert_eq!(claims(&farm, &a).await, vec![]);
    assert_eq!(forget_refusals(&farm.db, "b").await.unwrap(), 0, "its own alone");
    assert_eq!(forget_refusals(&farm.db, "a").await.unwrap(), 1);
    assert_eq!(claims(&farm, &a).await.len(), 1);
    drop(b);
}

/// Killed between its warden's refusal and the record of it: nothing says that it refused, so it may try once more.
#[tokio::test]
async fn a_refusal_that_was_never_written_down_is_made_again_and_passes_the_run_on() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.needy("j", spec()).await;
    let run = farm.submitted("j").await;
    assert_eq!(claims(&farm, &a).await.len(), 1);
    expire_now(&farm, &a).await;
    let late = refuse(&farm.db, run, 1, "a", "not signed").await.unwrap();
    assert!(!late, "the run is not its any more");
    farm.is("SELECT count(*) FROM farmhand.refusal", 0).await;
    let a = farm.node("a").await;
    let held = claims(&farm, &a).await;
    assert_eq!((held[0].run_id, held[0].attempt), (run, 2));
    assert!(refuses(&farm, &a, &held[0]).await);
    assert_eq!(claims(&farm, &a).await, vec![]);
    assert_eq!(claims(&farm, &b).await[0].run_id, run);
}

#[tokio::test]
async fn a_run_bound_to_its_node_is_not_left_to_others() {
    let (farm, a, _b) = refused(spec()).await;
    farm.exec("UPDATE farmhand.run_live SET node = 'a'").await;
    assert_eq!(claim(&farm.db, &a, 8, None).await.unwrap().len(), 1);
}
