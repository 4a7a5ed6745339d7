//! From ends to messages, and from messages to senders.

use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::definition::JobSpec;
use farmhand_core::notify::{Channel, Happening, TargetSpec, Topic};
use farmhand_core::run::RunState;
use farmhand_store::jobs::{ApplyOutcome, Blocked, JobChange, TargetChange, apply_all};
use farmhand_store::notify::{
    Delivery, Settled, Turn, Verdict, claim, sent, settle, submit_test, take_turn, targets, watch,
};
use farmhand_store::protocol::{Finish, claim as claim_runs};

use crate::fixture::{Farm, expire_now, one, past, spec, success};

pub const LEASE: Duration = Duration::from_secs(60);

pub fn told() -> JobSpec {
    JobSpec {
        notify: vec!["ops".to_owned()],
        owner: Some("payments".to_owned()),
        description: Some("Pay the wages".to_owned()),
        runbook: Some("https://wiki.example/payroll".to_owned()),
        ..spec()
    }
}

pub fn target(spec: TargetSpec) -> TargetChange {
    TargetChange {
        name: "ops".to_owned(),
        spec,
        source: "test.toml".to_owned(),
    }
}

pub fn hook() -> TargetSpec {
    TargetSpec {
        webhook: Some("http://127.0.0.1:1/".to_owned()),
        ..TargetSpec::default()
    }
}

/// A farm whose target is `ops`.
pub async fn farm_with(spec: TargetSpec) -> Farm {
    let farm = Farm::new().await;
    let wanted = [target(spec)];
    let done = apply_all(&anna(&farm.owner), &[], None, Some(&wanted), false, "t")
        .await
        .unwrap();
    assert!(matches!(done, ApplyOutcome::Done { .. }), "{done:?}");
    farm
}

/// Submits a run of `job`, claims it and ends it so.
pub async fn ends(farm: &Farm, job: &str, state: RunState) {
    let me = farm.node("a").await;
    let run = farm.i64(&format!("SELECT farmhand.submit('{job}')")).await;
    let mut claimed = claim_runs(&farm.db, &me, 1, Some(&[run])).await.unwrap();
    let run = claimed.pop().expect("the run");
    let end = Finish {
        state,
        exit_code: Some(3),
        ..success(&me, &run)
    };
    one(farm, end).await;
    farmhand_store::protocol::close(&farm.db, &me).await.unwrap();
}

pub async fn settled(farm: &Farm) -> usize {
    match settle(&farm.db, &[]).await.unwrap() {
        Settled::Done {
            messages,
            more: false,
        } => messages,
        other => panic!("{other:?}"),
    }
}

async fn topics(farm: &Farm) -> Vec<String> {
    let rows = farm
        .sql
        .query(
            "SELECT topic || ' ' || channel FROM farmhand.notification ORDER BY created_at, topic, channel",
            &[],
        )
        .await
        .unwrap();
    rows.iter().map(|r| r.get(0)).collect()
}

#[tokio::test]
async fn an_episode_is_told_once_at_its_begin_and_once_at_its_end() {
    let farm = farm_with(TargetSpec {
        email: vec!["a@b".to_owned()],
        ..hook()
    })
    .await;
    farm.job("j", told(), None).await;
    farm.job("quiet", spec(), None).await;
    ends(&farm, "j", RunState::Succeeded).await;
    ends(&farm, "quiet", RunState::Failed).await;
    farm.is("SELECT count(*) FROM farmhand.notify_note", 0).await;
    ends(&farm, "j", RunState::Failed).await;
    assert_eq!(settled(&farm).await, 2);
    ends(&farm, "j", RunState::TimedOut).await;
    ends(&farm, "j", RunState::Lost).await;
    assert_eq!(settled(&farm).await, 0);
    ends(&farm, "j", RunState::Succeeded).await;
    ends(&farm, "j", RunState::Succeeded).await;
    assert_eq!(settled(&farm).await, 2);
    assert_eq!(
        topics(&farm).await,
        [
            "failure email",
            "failure webhook",
            "recovery email",
            "recovery webhook"
        ]
    );
    let body = "SELECT concat_ws(', ', body->>'failures', body->>'owner', body->>'description', body->>'runbook') \
                FROM farmhand.notification WHERE topic = 'recovery' LIMIT 1";
    let said = "3, payments, Pay the wages, https://wiki.example/payroll";
    farm.says(body, Some(said)).await;
    farm.is("SELECT count(*) FROM farmhand.notify_episode", 0).await;
    farm.is("SELECT count(*) FROM farmhand.notify_note", 0).await;
}

#[tokio::test]
async fn a_failure_and_its_end_that_nobody_had_looked_at_are_both_told() {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    ends(&farm, "j", RunState::Failed).await;
    ends(&farm, "j", RunState::Succeeded).await;
    ends(&farm, "j", RunState::Failed).await;
    assert_eq!(settled(&farm).await, 3);
}

#[tokio::test]
async fn of_many_that_settle_at_once_none_tells_twice() {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    ends(&farm, "j", RunState::Failed).await;
    let tries: Vec<_> = (0..8)
        .map(|_| {
            let db = farm.db.clone();
            tokio::spawn(async move { settle(&db, &[]).await.unwrap() })
        })
        .collect();
    for each in tries {
        each.await.unwrap();
    }
    assert_eq!(topics(&farm).await, ["failure webhook"]);
}

#[tokio::test]
async fn shards_have_recovered_when_all_of_a_firing_have() {
    let farm = farm_with(hook()).await;
    let sharded = JobSpec {
        instances: 2,
        ..told()
    };
    farm.job("j", sharded, None).await;
    let me = farm.node("a").await;
    let mut told = Vec::new();
    for bad in [true, true, false] {
        farm.i64("SELECT farmhand.submit('j')").await;
        let runs = claim_runs(&farm.db, &me, 9, None).await.unwrap();
        let runs = if runs.len() == 2 {
            runs
        } else {
            // Another node's shard is anybody's after three seconds; there is no other node.
            panic!("{runs:?}")
        };
        for (n, run) in runs.iter().enumerate() {
            let state = if bad && n == 0 {
                RunState::Failed
            } else {
                RunState::Succeeded
            };
            one(
                &farm,
                Finish {
                    state,
                    ..success(&me, run)
                },
            )
            .await;
            told.push(settled(&farm).await);
        }
    }
    assert_eq!(told, [1, 0, 0, 0, 0, 1]);
}

#[tokio::test]
async fn a_run_that_is_lost_again_and_again_is_told_once() {
    let farm = farm_with(hook()).await;
    let at = past(60);
    farm.job("j", told(), Some(at)).await;
    farm.fire_at("j", at, &[at]).await;
    for _ in 0..3 {
        let me = farm.node("a").await;
        assert_eq!(claim_runs(&farm.db, &me, 1, None).await.unwrap().len(), 1);
        expire_now(&farm, &me).await;
        settled(&farm).await;
    }
    assert_eq!(topics(&farm).await, ["takeover webhook"]);
    let node = "SELECT body->>'node' FROM farmhand.notification";
    farm.says(node, Some("a")).await;
}

#[tokio::test]
async fn a_target_hears_of_what_it_asked_for() {
    let farm = farm_with(TargetSpec {
        on: vec![Topic::Recovery],
        ..hook()
    })
    .await;
    farm.job("j", told(), None).await;
    ends(&farm, "j", RunState::Failed).await;
    assert_eq!(settled(&farm).await, 0);
    ends(&farm, "j", RunState::Succeeded).await;
    assert_eq!(settled(&farm).await, 1);
}

#[tokio::test]
async fn a_missed_deadline_is_told_once_and_watched_until_the_job_succeeds() {
    let farm = farm_with(hook()).await;
    let scheduled = JobSpec {
        schedule: vec!["0 * * * *".to_owned()],
        ..told()
    };
    farm.job("j", scheduled, Some(past(-3600))).await;
    farm.job("quiet", spec(), None).await;
    let watched = async || watch(&farm.db, "a", Duration::ZERO).await.unwrap().unwrap().jobs;
    let seen = watched().await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].point.waits && seen[0].late_since.is_none(), "{seen:?}");
    let missed = Happening::MissedDeadline {
        deadline: past(10),
        last_success: None,
    };
    for _ in 0..2 {
        settle(&farm.db, &[("j".to_owned(), missed.clone())])
            .await
            .unwrap();
    }
    assert_eq!(topics(&farm).await, ["deadline webhook"]);
    assert_eq!(watched().await[0].late_since, Some(past(10)));
    ends(&farm, "j", RunState::Succeeded).await;
    assert_eq!(settled(&farm).await, 1);
    assert_eq!(watched().await[0].late_since, None);
}

#[tokio::test]
async fn a_job_that_tells_nobody_any_more_is_forgotten() {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    ends(&farm, "j", RunState::Failed).await;
    settled(&farm).await;
    ends(&farm, "j", RunState::Failed).await;
    farm.job("j", spec(), None).await;
    settled(&farm).await;
    let left =
        "SELECT (SELECT count(*) FROM farmhand.notify_note) + (SELECT count(*) FROM farmhand.notify_episode)";
    farm.is(left, 0).await;
    farm.job("j", told(), None).await;
    ends(&farm, "j", RunState::Succeeded).await;
    assert_eq!(settled(&farm).await, 0);
}

pub async fn claimed(farm: &Farm, address: &str, lease: Duration) -> Vec<Delivery> {
    claim(&farm.db, address, 8, &[], lease).await.unwrap()
}

async fn one_message(farm: &Farm) {
    submit_test(&anna(&farm.db), "ops", &hook(), "tester")
        .await
        .unwrap();
}

#[tokio::test]
async fn of_many_senders_one_has_a_message_until_its_lease_is_over() {
    let farm = farm_with(hook()).await;
    one_message(&farm).await;
    let tries: Vec<_> = (0..8)
        .map(|n| {
            let db = farm.db.clone();
            tokio::spawn(async move { claim(&db, &format!("n{n}"), 8, &[], LEASE).await.unwrap().len() })
        })
        .collect();
    let mut won = 0;
    for each in tries {
        won += each.await.unwrap();
    }
    assert_eq!(won, 1);
    assert_eq!(claimed(&farm, "late", LEASE).await, []);
    // As after its sender's death.
    farm.exec("UPDATE farmhand.notification SET next_at = statement_timestamp()")
        .await;
    let again = claimed(&farm, "late", LEASE).await;
    assert_eq!((again.len(), again[0].tries), (1, 2));
}

#[tokio::test]
async fn what_a_try_led_to_counts_for_that_try_and_delivered_is_delivered() {
    let farm = farm_with(hook()).await;
    one_message(&farm).await;
    let first = claimed(&farm, "a", Duration::ZERO).await.remove(0);
    let second = claimed(&farm, "b", LEASE).await.remove(0);
    assert_eq!((first.id, second.tries), (second.id, 2));
    let again = Verdict::Again {
        error: "no".to_owned(),
        pause: Duration::ZERO,
    };
    assert!(
        !sent(&farm.db, &first, &again).await.unwrap(),
        "it is the second's now"
    );
    assert!(sent(&farm.db, &first, &Verdict::Delivered).await.unwrap());
    assert!(!sent(&farm.db, &second, &again).await.unwrap(), "it has arrived");
    assert_eq!(claimed(&farm, "c", LEASE).await, []);
    let seen = targets(&farm.db).await.unwrap().remove(0);
    assert!(
        seen.last_delivery.is_some() && seen.waiting == 0 && seen.trouble.is_none(),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_target_that_does_not_answer_keeps_no_other_waiting() {
    let farm = farm_with(hook()).await;
    for _ in 0..5 {
        one_message(&farm).await;
    }
    submit_test(&anna(&farm.db), "other", &hook(), "tester")
        .await
        .unwrap();
    let first = claimed(&farm, "a", LEASE).await;
    let of = |name: &str| first.iter().filter(|d| d.target == name).count();
    assert_eq!((of("ops"), of("other")), (2, 1));
    let busy = [format!("{} ops", Channel::Webhook)];
    assert_eq!(claim(&farm.db, "a", 8, &busy, LEASE).await.unwrap(), []);
    let gone: Vec<&Delivery> = first.iter().filter(|d| d.target == "other").collect();
    assert_eq!(gone[0].spec, None, "nobody defines it");
}

#[tokio::test]
async fn a_turn_is_one_agents_until_its_time_is_over() {
    let farm = Farm::new().await;
    let take =
        async |address: &str, every: Duration| take_turn(&farm.db, Turn::Ping, address, every).await.unwrap();
    assert!(take("a", LEASE).await);
    assert!(!take("b", LEASE).await && !take("a", LEASE).await);
    assert!(take("b", Duration::ZERO).await);
    farm.exec("UPDATE farmhand.notify_turn SET at = statement_timestamp() + interval '1 hour'")
        .await;
    assert!(take("a", LEASE).await, "a clock that was set back");
    // That of deadlines comes with what there is to look at.
    assert!(watch(&farm.db, "a", LEASE).await.unwrap().is_some());
    assert_eq!(watch(&farm.db, "b", LEASE).await.unwrap(), None);
}

#[tokio::test]
async fn a_job_cannot_name_a_target_that_is_not_there() {
    let farm = Farm::new().await;
    let change = JobChange {
        job_id: "j".to_owned(),
        spec: told(),
        next_run: None,
        source: "t".to_owned(),
    };
    let apply = async |targets: Option<&[TargetChange]>, prune| {
        apply_all(
            &anna(&farm.owner),
            std::slice::from_ref(&change),
            None,
            targets,
            prune,
            "t",
        )
        .await
        .unwrap()
    };
    let none = Blocked::NoTarget {
        job_id: "j".to_owned(),
        target: "ops".to_owned(),
    };
    assert_eq!(apply(None, false).await, ApplyOutcome::Blocked(vec![none]));
    let with = [target(hook())];
    assert!(matches!(
        apply(Some(&with), false).await,
        ApplyOutcome::Done { .. }
    ));
    assert_eq!(targets(&farm.db).await.unwrap()[0].jobs, ["j"]);
    // Nothing changes: nothing is written.
    let done = apply(Some(&with), true).await;
    assert!(matches!(done, ApplyOutcome::Done { seq: 1, .. }), "{done:?}");
}
