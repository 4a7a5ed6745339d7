//! Jobs as pages show them: lists with outcomes, one in full, the tasks of a flow.

use farmhand_core::definition::{FlowSpec, JobSpec, TaskSpec};
use farmhand_core::health::JobHealth;
use farmhand_core::run::RunState;
use farmhand_store::jobs::pause;
use farmhand_store::protocol::{claim, claim_gated};
use farmhand_store::reading::{self, JobCondition, JobKind, JobOrder, JobState, JobsFilter};
use farmhand_tests::acting::anna;
use jiff::ToSpan;
use serde_json::json;

use super::fixture::{expire_now, one, past, spec, success};
use super::reading::{farm, page, submitted};

#[tokio::test]
async fn jobs_come_with_their_last_outcomes_and_are_filtered() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let mut daily = spec();
    daily.schedule = vec!["30 4 * * *".to_owned()];
    daily.placement = [("role".to_owned(), "batch".to_owned())].into();
    farm.job("backup-db", daily, Some(past(-86_400))).await;
    farm.job("mail", spec(), None).await;
    let mut after = spec();
    after.triggered_by = vec!["mail".to_owned()];
    farm.job("report", after, None).await;
    for good in [true, false] {
        submitted(&farm, "mail").await;
        let run = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
        let mut end = success(&me, &run);
        if !good {
            end.state = farmhand_core::run::RunState::Failed;
        }
        one(&farm, end).await;
    }
    pause(&anna(&farm.db), "backup-db", "somebody", Some("holidays"))
        .await
        .unwrap();

    let all = reading::jobs(&db, &JobsFilter::default(), &page(None, 10))
        .await
        .unwrap()
        .items;
    let names: Vec<_> = all.iter().map(|job| job.job_id.as_str()).collect();
    assert_eq!(names, ["backup-db", "mail", "report"]);
    assert_eq!(
        (all[0].state, all[0].kind),
        (JobState::Paused, JobKind::Scheduled)
    );
    assert!(all[0].schedule_text.contains("04:30"), "{}", all[0].schedule_text);
    let states: Vec<_> = all[1].outcomes.iter().map(|run| run.state).collect();
    assert_eq!(
        states,
        [RunState::Failed, RunState::Succeeded],
        "the newest first"
    );
    assert_eq!(
        (all[2].kind, all[2].schedule_text.as_str()),
        (JobKind::Triggered, "after mail succeeds")
    );

    let names = async |filter: JobsFilter| -> Vec<String> {
        let list = reading::jobs(&db, &filter, &page(None, 10)).await.unwrap();
        list.items.into_iter().map(|job| job.job_id).collect()
    };
    let any = JobsFilter::default;
    assert_eq!(
        names(JobsFilter {
            name: Some("Up-D".to_owned()),
            ..any()
        })
        .await,
        ["backup-db"]
    );
    assert_eq!(
        names(JobsFilter {
            state: Some(JobCondition::Failing),
            ..any()
        })
        .await,
        ["mail"]
    );
    assert_eq!(
        names(JobsFilter {
            state: Some(JobCondition::Paused),
            ..any()
        })
        .await,
        ["backup-db"]
    );
    assert_eq!(
        names(JobsFilter {
            kind: Some(JobKind::Submitted),
            ..any()
        })
        .await,
        ["mail"]
    );
    let label = Some(("role".to_owned(), "batch".to_owned()));
    assert_eq!(names(JobsFilter { label, ..any() }).await, ["backup-db"]);
}

#[tokio::test]
async fn jobs_are_sorted_over_all_pages_and_those_without_an_instant_come_last() {
    let (farm, db) = farm().await;
    for name in ["a", "b", "c", "d"] {
        farm.job(name, spec(), None).await;
    }
    farm.exec(
        "INSERT INTO farmhand.job_stat (job_id, last_finished, consecutive_failures) VALUES
                 ('b', now() - interval '2 hours', 3), ('c', now() - interval '1 hour', 0), ('d', NULL, 3);
             UPDATE farmhand.job SET next_run = now() + interval '2 hours' WHERE job_id = 'a';
             UPDATE farmhand.job SET next_run = now() + interval '1 hour' WHERE job_id = 'd'",
    )
    .await;
    for (order, wanted) in [
        (JobOrder::Name, ["a", "b", "c", "d"]),
        (JobOrder::Failures, ["b", "d", "a", "c"]),
        (JobOrder::LastEnd, ["c", "b", "a", "d"]),
        (JobOrder::Next, ["d", "a", "b", "c"]),
    ] {
        let filter = JobsFilter {
            order,
            ..JobsFilter::default()
        };
        for rows in [1, 2, 3, 10] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let list = reading::jobs(&db, &filter, &page(cursor, rows)).await.unwrap();
                seen.extend(list.items.into_iter().map(|job| job.job_id));
                cursor = list.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, wanted, "{order}, {rows} a page");
        }
    }
    let first = reading::jobs(&db, &JobsFilter::default(), &page(None, 1))
        .await
        .unwrap();
    let other = JobsFilter {
        order: JobOrder::Next,
        ..JobsFilter::default()
    };
    let error = reading::jobs(&db, &other, &page(first.next, 1))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("cursor"), "{error}");
}

#[tokio::test]
async fn a_job_that_runs_or_waits_is_seen_behind_many_older_runs_that_wait_for_their_time() {
    let (farm, db) = farm().await;
    let (first, second) = (farm.node("n1").await, farm.node("n2").await);
    farm.due_runs("j", 25).await;
    farm.due_runs("quiet", 25).await;
    let later = "UPDATE farmhand.run_live SET ready_at = now() + interval '1 hour'";
    farm.exec(later).await;
    let older = submitted(&farm, "j").await;
    let newer = submitted(&farm, "j").await;
    // The newer of them is claimed first.
    for (me, run) in [(&first, newer), (&second, older)] {
        assert_eq!(claim(&farm.db, me, 1, Some(&[run])).await.unwrap().len(), 1);
    }
    let running = JobsFilter {
        state: Some(JobCondition::Running),
        ..JobsFilter::default()
    };
    let running = reading::jobs(&db, &running, &page(None, 10)).await.unwrap().items;
    assert_eq!(running.len(), 1);
    let job = &running[0];
    assert_eq!((job.job_id.as_str(), job.health), ("j", JobHealth::Running));
    let node = farm
        .text("SELECT running_at FROM farmhand.job_status WHERE job_id = 'j'")
        .await;
    assert_eq!((node.as_deref(), job.running_at()), (Some("n2"), Some("n2")));
    let listed: Vec<_> = job.live.iter().map(|run| run.run_id).collect();
    assert_eq!((listed.len(), &listed[..2]), (20, &[older, newer][..]));
    assert!(listed[2..].is_sorted(), "{listed:?}");

    submitted(&farm, "quiet").await;
    let ready = "UPDATE farmhand.run_live SET ready_at = now() - interval '10 minutes'
        WHERE job_id = 'quiet' AND ready_at < now()";
    farm.exec(ready).await;
    let all = reading::jobs(&db, &JobsFilter::default(), &page(None, 10)).await;
    let health: Vec<_> = all.unwrap().items.iter().map(|job| job.health).collect();
    assert_eq!(health, [JobHealth::Running, JobHealth::Waiting]);
}

#[tokio::test]
async fn a_run_that_was_taken_over_waits_from_then_on_wherever_it_is_shown() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    farm.held_run(&me, "free", spec()).await;
    let locked = JobSpec {
        locks: vec!["disk".to_owned()],
        ..spec()
    };
    farm.job("gated", locked, None).await;
    submitted(&farm, "gated").await;
    assert_eq!(claim_gated(&farm.db, &me, 1).await.unwrap().len(), 1);
    let earlier = "UPDATE farmhand.run_live SET ready_at = now() - interval '10 minutes'";
    farm.exec(earlier).await;
    let health = async || -> Vec<JobHealth> {
        let all = reading::jobs(&db, &JobsFilter::default(), &page(None, 10)).await;
        all.unwrap().items.iter().map(|job| job.health).collect()
    };
    let verdict = async || -> Vec<bool> {
        let now = reading::farm(&db).await.unwrap();
        let waits = [now.oldest_due, now.oldest_gated].map(|run| run.expect("it waits").ready_at);
        waits.map(|at| at < past(30)).into()
    };
    assert_eq!(health().await, [JobHealth::Running; 2]);
    expire_now(&farm, &me).await;
    assert_eq!(health().await, [JobHealth::Enabled; 2]);
    assert_eq!(verdict().await, [false; 2]);
    for (passed, shown) in [
        (2, [JobHealth::Waiting, JobHealth::Enabled]),
        (4, [JobHealth::Waiting; 2]),
    ] {
        let passed = format!("UPDATE farmhand.attempt SET ended_at = ended_at - interval '{passed} minutes'");
        farm.exec(&passed).await;
        assert_eq!(health().await, shown);
        assert_eq!(verdict().await, [true; 2]);
    }
}

#[tokio::test]
async fn a_job_is_read_with_its_instants_revisions_and_runs() {
    let (farm, db) = farm().await;
    let mut hourly = spec();
    hourly.schedule = vec!["0 * * * *".to_owned()];
    hourly.instances = 2;
    farm.job("a", hourly.clone(), Some(past(-3600))).await;
    hourly.priority = 7;
    farm.job("a", hourly, Some(past(-3600))).await;
    submitted(&farm, "a").await;

    let detail = reading::job(&db, "a").await.unwrap().unwrap();
    assert_eq!(
        (detail.next.len(), detail.spec["priority"].as_i64()),
        (10, Some(7))
    );
    assert_eq!(detail.job.live.len(), 2);
    assert!(reading::job(&db, "nothing").await.unwrap().is_none());
    let next = reading::next(&db, "a", Some(past(0)), 3).await.unwrap().unwrap();
    assert_eq!(next.instants.len(), 3);

    let first = reading::revisions(&db, "a", &page(None, 1)).await.unwrap();
    let second = reading::revisions(&db, "a", &page(first.next, 1)).await.unwrap();
    assert_eq!(
        (first.items[0].rev, second.items[0].rev, second.next),
        (2, 1, None)
    );
    let diff = reading::diff(&db, "a", None, None).await.unwrap().unwrap();
    assert_eq!((diff.from, diff.to), (1, 2));
    assert_eq!(diff.keys.keys().collect::<Vec<_>>(), ["priority"]);
    assert_eq!(
        (&diff.keys["priority"].old, &diff.keys["priority"].new),
        (&json!(0), &json!(7))
    );
    assert!(reading::diff(&db, "a", Some(9), None).await.unwrap().is_none());

    let cells = reading::cells(&db, "a", 100).await.unwrap();
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| (cell.firing == cells[1].run_id, cell.instance))
        .collect();
    assert_eq!(rows, [(true, 1), (true, 0)], "one column of two shards");
}

#[tokio::test]
async fn the_tasks_of_a_flow_are_read_with_what_they_wait_for() {
    let (farm, db) = farm().await;
    let task = |requires: &[&str]| TaskSpec {
        requires: requires.iter().map(|t| (*t).to_owned()).collect(),
        ..TaskSpec::default()
    };
    let flow = FlowSpec {
        tasks: [
            ("load".to_owned(), task(&[])),
            ("sum".to_owned(), task(&["load"])),
        ]
        .into(),
        ..FlowSpec::default()
    };
    let night = JobSpec {
        flow: Some(flow),
        ..JobSpec::default()
    };
    farm.job("night", night, None).await;
    farm.job("plain", spec(), None).await;
    let run = submitted(&farm, "night").await;
    farm.exec(&format!(
        "INSERT INTO farmhand.task (run_id, task, attempt, outcome, started_at, ended_at, stored_at) \
             VALUES ({run}, 'load', 1, 'succeeded', now() - interval '5 s', now(), now())"
    ))
    .await;
    let view = reading::flow(&db, run).await.unwrap().unwrap();
    let tasks: Vec<_> = view
        .tasks
        .iter()
        .map(|t| (t.task.as_str(), t.end.is_some(), t.requires.clone()))
        .collect();
    assert_eq!(
        tasks,
        [("load", true, vec![]), ("sum", false, vec!["load".to_owned()])]
    );
    assert_eq!(view.elapsed_ms, 5_000);
    let plain = submitted(&farm, "plain").await;
    assert!(reading::flow(&db, plain).await.unwrap().is_none());
}

#[tokio::test]
async fn the_schedule_ahead_has_what_is_due_by_hour_and_how_long_it_usually_takes() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let scheduled = |text: &str| JobSpec {
        schedule: vec![text.to_owned()],
        ..spec()
    };
    let soon = Some(past(-60));
    farm.job("hourly", scheduled("30 * * * *"), soon).await;
    farm.job("often", scheduled("@every 1s"), soon).await;
    farm.job("paused", scheduled("@hourly"), soon).await;
    farm.job("next-year", scheduled("@yearly"), Some(past(-30 * 86_400)))
        .await;
    farm.job("by-hand", spec(), None).await;
    pause(&anna(&farm.db), "paused", "somebody", None).await.unwrap();
    for _ in 0..5 {
        submitted(&farm, "hourly").await;
        let run = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
        one(&farm, success(&me, &run)).await;
    }
    let now = farmhand_store::reading::now(&db).await.unwrap();
    let ahead = reading::ahead(&db, now, reading::Step::Hour).await.unwrap();
    let names: Vec<_> = ahead.jobs.iter().map(|job| job.job_id.as_str()).collect();
    assert_eq!((names, ahead.left_out), (vec!["hourly", "often"], 0));
    let hourly = &ahead.jobs[0];
    let counts = hourly.counts.as_ref().unwrap();
    assert_eq!(counts.len(), 24);
    assert!(counts[1..].iter().all(|n| *n == 1), "{counts:?}");
    assert_eq!(hourly.usual.map(|usual| usual.count), Some(5));
    assert_eq!((&ahead.jobs[1].counts, ahead.jobs[1].usual), (&None, None));
    let week = reading::ahead(&db, now, reading::Step::Day).await.unwrap();
    assert_eq!(week.edges.len(), 8);
    assert_eq!(week.jobs[0].counts.as_ref().unwrap()[1], 24);
}

#[tokio::test]
async fn jobs_that_a_calendar_keeps_from_running_take_no_place_in_the_schedule_ahead() {
    let (farm, db) = farm().await;
    let now = reading::now(&db).await.unwrap();
    let days = (now - 24.hours(), now + 48.hours());
    let day = |at: jiff::Timestamp| at.to_zoned(jiff::tz::TimeZone::UTC).date();
    let exclude = vec![format!("{}..{}", day(days.0), day(days.1))];
    let off = JobSpec {
        schedule: vec!["* * * * *".to_owned()],
        calendars: vec!["off".to_owned()],
        exclude,
        ..spec()
    };
    for n in 0..101 {
        farm.job(&format!("off-{n:03}"), off.clone(), Some(now + 1.minute()))
            .await;
    }
    let due = JobSpec {
        schedule: vec!["@hourly".to_owned()],
        ..spec()
    };
    farm.job("due", due, Some(now + 2.minutes())).await;
    let ahead = reading::ahead(&db, now, reading::Step::Hour).await.unwrap();
    let names: Vec<_> = ahead.jobs.iter().map(|job| job.job_id.as_str()).collect();
    assert_eq!((names, ahead.left_out), (vec!["due"], 0));
}
