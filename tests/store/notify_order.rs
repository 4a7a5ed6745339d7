//! In which order messages arrive, whose turn it is, and who wants mail.

use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::definition::JobSpec;
use farmhand_core::notify::{Happening, TargetSpec, Topic};
use farmhand_core::run::RunState;
use farmhand_store::jobs::apply_all;
use farmhand_store::notify::{Delivery, Turn, Verdict, give_turn_back, sent, settle, take_turn, watch};
use farmhand_store::snapshot::{stand, take};

use crate::fixture::{Farm, past, until_blocked};
use crate::notify::{LEASE, claimed, ends, farm_with, hook, settled, target, told};

/// What the sender gets now.
async fn topics_claimed(farm: &Farm) -> Vec<(Topic, Delivery)> {
    let all = claimed(farm, "a", LEASE).await;
    all.into_iter().map(|d| (d.topic, d)).collect()
}

#[tokio::test]
async fn a_recovery_waits_for_the_failure_before_it() {
    let farm = farm_with(hook()).await;
    for job in ["j", "other"] {
        farm.job(job, told(), None).await;
    }
    ends(&farm, "j", RunState::Failed).await;
    settled(&farm).await;
    let mut first = topics_claimed(&farm).await;
    let (topic, failure) = first.pop().unwrap();
    assert_eq!((topic, first.len()), (Topic::Failure, 0));
    let again = Verdict::Again {
        error: "it is away".to_owned(),
        pause: Duration::from_secs(1_800),
    };
    sent(&farm.db, &failure, &again).await.unwrap();
    ends(&farm, "j", RunState::Succeeded).await;
    ends(&farm, "other", RunState::Failed).await;
    settled(&farm).await;
    let others: Vec<_> = claimed(&farm, "a", LEASE).await;
    let others: Vec<_> = others.iter().map(|d| d.job_id.as_deref()).collect();
    assert_eq!(
        others,
        [Some("other")],
        "the recovery waits, and nobody else for it"
    );
    farm.exec("UPDATE farmhand.notification SET next_at = statement_timestamp() WHERE job_id = 'j'")
        .await;
    let (topic, failure) = topics_claimed(&farm).await.remove(0);
    assert_eq!((topic, failure.tries), (Topic::Failure, 2));
    assert_eq!(topics_claimed(&farm).await, [], "it is being sent");
    sent(&farm.db, &failure, &Verdict::Delivered).await.unwrap();
    assert_eq!(topics_claimed(&farm).await[0].0, Topic::Recovery);
}

#[tokio::test]
async fn messages_that_were_made_at_once_arrive_in_the_order_in_which_it_happened() {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    for state in [RunState::Failed, RunState::Succeeded, RunState::Failed] {
        ends(&farm, "j", state).await;
    }
    assert_eq!(settled(&farm).await, 3);
    let mut arrived = Vec::new();
    while let Some((topic, delivery)) = topics_claimed(&farm).await.pop() {
        sent(&farm.db, &delivery, &Verdict::Delivered).await.unwrap();
        arrived.push(topic);
    }
    assert_eq!(arrived, [Topic::Failure, Topic::Recovery, Topic::Failure]);
}

/// A farm whose job has failed and succeeded again; the message of the failure is claimed.
async fn failed_and_recovered() -> (Farm, Delivery) {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    for state in [RunState::Failed, RunState::Succeeded] {
        ends(&farm, "j", state).await;
    }
    settled(&farm).await;
    let failure = topics_claimed(&farm).await.remove(0).1;
    (farm, failure)
}

#[tokio::test]
async fn a_message_that_is_given_up_holds_up_none() {
    let (farm, failure) = failed_and_recovered().await;
    let given_up = Verdict::Failed {
        error: "no".to_owned(),
    };
    sent(&farm.db, &failure, &given_up).await.unwrap();
    assert_eq!(topics_claimed(&farm).await[0].0, Topic::Recovery);
}

#[tokio::test]
async fn a_message_that_has_waited_for_an_hour_holds_up_none() {
    let (farm, failure) = failed_and_recovered().await;
    let again = Verdict::Again {
        error: "it is refused, and only it".to_owned(),
        pause: Duration::from_secs(1_800),
    };
    sent(&farm.db, &failure, &again).await.unwrap();
    assert_eq!(topics_claimed(&farm).await, []);
    let old = "UPDATE farmhand.notification SET created_at = statement_timestamp() - interval '61 minutes' WHERE tries > 0";
    farm.exec(old).await;
    assert_eq!(topics_claimed(&farm).await, [], "the recovery ends what it opens");
    let without = "DELETE FROM farmhand.notification WHERE topic = 'recovery'";
    farm.exec(without).await;
    ends(&farm, "j", RunState::Failed).await;
    settled(&farm).await;
    assert_eq!(topics_claimed(&farm).await[0].0, Topic::Failure);
}

#[tokio::test]
async fn targets_that_want_mail_are_those_with_an_address() {
    let farm = farm_with(hook()).await;
    let wanted = async || {
        let turn = watch(&farm.db, "a", Duration::ZERO).await.unwrap();
        turn.unwrap().mail
    };
    assert!(wanted().await.is_empty());
    let mail = TargetSpec {
        email: vec!["a@b".to_owned()],
        ..TargetSpec::default()
    };
    apply_all(&anna(&farm.owner), &[], None, Some(&[target(mail)]), false, "t")
        .await
        .unwrap();
    assert_eq!(wanted().await, ["ops"]);
}

#[tokio::test]
async fn a_turn_that_is_given_back_is_the_next_agents() {
    let farm = Farm::new().await;
    let take = async |address: &str| take_turn(&farm.db, Turn::Ping, address, LEASE).await.unwrap();
    let give = async |address: &str| give_turn_back(&farm.db, Turn::Ping, address).await.unwrap();
    assert!(take("a").await);
    give("b").await;
    assert!(!take("b").await, "it was not its own to give");
    give("a").await;
    assert!(take("b").await);
    give("a").await;
    assert!(!take("a").await, "it is another's by now");
}

/// The agent that has it reads a large farm, or was frozen before it had read the answer.
#[tokio::test]
async fn who_is_at_its_turn_is_not_waited_for() {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    let other = farm.test.client().await;
    let at_it = "BEGIN; SELECT FROM farmhand.notify_turn FOR UPDATE";
    other.exec(at_it).await;
    let looks = async || watch(&farm.db, "a", LEASE).await.unwrap().is_some();
    assert!(!looks().await && !take_turn(&farm.db, Turn::Ping, "a", LEASE).await.unwrap());
    let seen = stand(&farm.db).await.unwrap();
    let gauges = take(&farm.db, seen.holder, "a", seen, Some(LEASE), LEASE, 1).await;
    assert_eq!(gauges.unwrap().expect("the lease").watch, None);
    other.exec("COMMIT").await;
    assert!(looks().await);
}

#[tokio::test]
async fn nobody_is_told_of_a_deadline_after_the_job_has_succeeded() {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    let missed = || Happening::MissedDeadline {
        deadline: past(10),
        last_success: None,
    };
    // After the look and before the message.
    ends(&farm, "j", RunState::Succeeded).await;
    settle(&farm.db, &[("j".to_owned(), missed())]).await.unwrap();
    let episodes = "SELECT count(*) FROM farmhand.notify_episode";
    farm.is(episodes, 0).await;
    farm.job("k", told(), None).await;
    settle(&farm.db, &[("k".to_owned(), missed())]).await.unwrap();
    farm.is(episodes, 1).await;
}

#[tokio::test]
async fn the_first_success_of_a_job_waits_for_the_message_that_it_is_late() {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    // As the settling does, just before its episode is there.
    let slow = farm.test.client().await;
    slow.exec("BEGIN").await;
    for sql in [
        include_str!("../../common/store/src/sql/notify_stats.sql"),
        include_str!("../../common/store/src/sql/notify_successes.sql"),
    ] {
        slow.query(sql, &[&["j"].as_slice()]).await.unwrap();
    }
    let told = async {
        until_blocked(&farm).await;
        slow.exec("COMMIT").await;
    };
    tokio::join!(ends(&farm, "j", RunState::Succeeded), told);
}

#[tokio::test]
async fn a_test_that_waits_is_no_message_of_a_job() {
    let farm = Farm::new().await;
    let sql = "INSERT INTO farmhand.notification (target, channel, topic, key, body, created_at)
        VALUES ('ops', 'webhook', 'test', 'a', '{}', now() - interval '20 min')";
    farm.exec(sql).await;
    let (seen, limit) = (stand(&farm.db).await.unwrap(), Duration::from_secs(5));
    let taken = take(&farm.db, seen.holder, "a", seen, None, limit, 10)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(taken.oldest_notification_age, 0.0);
}

/// A settling may commit an episode just after the job's last target was removed.
#[tokio::test]
async fn an_episode_that_was_left_behind_swallows_no_failure() {
    let farm = farm_with(hook()).await;
    farm.job("j", told(), None).await;
    ends(&farm, "j", RunState::Failed).await;
    settled(&farm).await;
    farm.exec("DELETE FROM farmhand.notify_edge").await;
    farm.job(
        "j",
        JobSpec {
            description: Some("again".to_owned()),
            ..told()
        },
        None,
    )
    .await;
    ends(&farm, "j", RunState::Failed).await;
    assert_eq!(settled(&farm).await, 1);
}
