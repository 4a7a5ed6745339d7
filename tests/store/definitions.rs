use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::definition::{Enabled, JobSpec};
use farmhand_core::due::{SkipFold, SkipReason};
use farmhand_store::jobs::{
    ApplyOutcome, Blocked, Change, JobChange, Paused, Resumed, apply, delete, job, list_jobs, pause, resume,
    revisions,
};
use farmhand_store::protocol::jobs_since;
use jiff::Timestamp;

use crate::epochs::replace;
use crate::fixture::{Farm, past, spec, until_blocked};
use crate::rounds_races::APPLY;

fn change(job_id: &str, priority: i32, next_run: Option<Timestamp>) -> JobChange {
    JobChange {
        job_id: job_id.to_owned(),
        spec: JobSpec { priority, ..spec() },
        next_run,
        source: "test.toml".to_owned(),
    }
}

async fn applied(farm: &Farm, changes: &[JobChange], prune: bool) -> Vec<(String, i64, Change)> {
    match apply(&anna(&farm.owner), changes, prune, "tester").await.unwrap() {
        ApplyOutcome::Done { applied, .. } => {
            applied.into_iter().map(|a| (a.job_id, a.rev, a.change)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_definition_gets_a_revision_when_it_changes_and_only_then() {
    let farm = Farm::new().await;
    let soon = past(-600);
    let first = applied(&farm, &[change("j", 0, Some(soon))], false).await;
    assert_eq!(first, [("j".to_owned(), 1, Change::Created)]);
    let same = applied(&farm, &[change("j", 0, Some(soon))], false).await;
    assert_eq!(same, [("j".to_owned(), 1, Change::Unchanged)]);
    let changed = applied(&farm, &[change("j", 5, Some(soon))], false).await;
    assert_eq!(changed, [("j".to_owned(), 2, Change::Updated)]);
    let known = revisions(&farm.db, "j", 10).await.unwrap();
    assert_eq!(known.iter().map(|r| r.rev).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(known[0].spec["priority"], 5);
    assert_eq!(job(&farm.db, "j").await.unwrap().unwrap().next_run, Some(soon));
}

#[tokio::test]
async fn agents_see_every_change_once_and_in_order() {
    let farm = Farm::new().await;
    applied(&farm, &[change("a", 0, None), change("b", 0, None)], false).await;
    let all = jobs_since(&farm.db, 0).await.unwrap();
    assert_eq!(all.len(), 2);
    let seen = all.iter().map(|j| j.seq).max().unwrap();
    assert!(jobs_since(&farm.db, seen).await.unwrap().is_empty());
    applied(&farm, &[change("a", 0, None)], false).await;
    assert!(
        jobs_since(&farm.db, seen).await.unwrap().is_empty(),
        "an unchanged job is no news"
    );
    applied(&farm, &[change("b", 7, None)], true).await;
    let news = jobs_since(&farm.db, seen).await.unwrap();
    assert_eq!(
        news.iter()
            .map(|j| (j.job_id.as_str(), j.deleted))
            .collect::<Vec<_>>(),
        [("a", true), ("b", false)]
    );
}

#[tokio::test]
async fn a_change_that_commits_later_has_the_higher_number() {
    let farm = Farm::new().await;
    let slow = farm.test.client().await;
    slow.exec("BEGIN; UPDATE farmhand.job_seq SET seq = seq + 1")
        .await;
    let db = farm.owner.clone();
    let applying = tokio::spawn(async move {
        apply(&anna(&db), &[change("j", 0, None)], false, "tester")
            .await
            .unwrap()
    });
    until_blocked(&farm).await;
    slow.exec("COMMIT").await;
    assert!(matches!(
        applying.await.unwrap(),
        ApplyOutcome::Done { seq: 2, .. }
    ));
}

#[tokio::test]
async fn overdue_instants_must_be_fired_before_their_schedule_changes() {
    let farm = Farm::new().await;
    let at = past(60);
    applied(&farm, &[change("j", 0, Some(at))], false).await;
    let blocked = ApplyOutcome::Blocked(vec![Blocked::Overdue {
        job_id: "j".to_owned(),
        rev: 1,
        next_run: at,
    }]);
    let next = Some(past(-600));
    // With an innocent one: nothing of the set is applied.
    let set = [change("j", 3, next), change("k", 0, None)];
    assert_eq!(
        apply(&anna(&farm.owner), &set, false, "tester").await.unwrap(),
        blocked
    );
    assert_eq!(job(&farm.db, "k").await.unwrap(), None);
    farm.fire_at("j", at, &[at]).await;
    applied(&farm, &set, false).await;
}

#[tokio::test]
async fn what_is_due_when_a_job_is_stopped_starts_no_more_and_has_its_record() {
    let farm = Farm::new().await;
    let at = Timestamp::from_second(past(3600).as_second() / 60 * 60).unwrap();
    let ten_minutes = |enabled| JobSpec {
        schedule: vec!["* * * * *".to_owned()],
        start: Some(at.to_string()),
        end: Some((at + Duration::from_secs(600)).to_string()),
        enabled,
        ..spec()
    };
    for name in ["paused", "disabled", "removed", "pruned"] {
        farm.job(name, ten_minutes(Enabled::Yes), Some(at)).await;
    }
    // On a copy claims are closed until agents have watched it.
    replace(&farm).await;
    assert_eq!(
        pause(&anna(&farm.db), "paused", "eve", None).await.unwrap(),
        Paused::Done
    );
    let disabled = JobChange {
        spec: ten_minutes(Enabled::No),
        ..change("disabled", 0, Some(past(-60)))
    };
    let paused = JobChange {
        spec: ten_minutes(Enabled::Yes),
        ..change("paused", 0, Some(past(-60)))
    };
    delete(&anna(&farm.owner), &["removed".to_owned()], "eve")
        .await
        .unwrap();
    applied(&farm, &[disabled, paused], true).await;
    let told = "SELECT string_agg(DISTINCT job_id || ' ' || reason || ' ' || submitted_by, ', ') FROM farmhand.run_history
        WHERE state = 'skipped' AND first_due = (SELECT min(first_due) FROM farmhand.run_history)";
    farm.says(
        told,
        Some("disabled withdrawn tester, paused paused eve, pruned withdrawn tester, removed withdrawn eve"),
    )
    .await;
    let counted = "SELECT count(*) FROM (SELECT job_id FROM farmhand.run_history GROUP BY job_id HAVING sum(count) = 10) j";
    farm.is(counted, 4).await;
    farm.is("SELECT count(*) FROM farmhand.run_live", 0).await;
    let decided = "SELECT count(*) FROM farmhand.job WHERE decided_until > now() - interval '1 minute'";
    farm.is(decided, 4).await;
    // What follows falls into the pause and is recorded once.
    let row = job(&farm.db, "paused").await.unwrap().unwrap();
    assert!(
        row.decided_until >= row.paused_at && row.paused_at.is_some(),
        "{row:?}"
    );
}

#[tokio::test]
async fn next_run_never_goes_back_to_a_decided_instant() {
    let farm = Farm::new().await;
    let at = past(60);
    applied(&farm, &[change("j", 0, Some(at))], false).await;
    farm.fire_at("j", at, &[at]).await;
    for again in [at, past(300)] {
        let outcome = apply(
            &anna(&farm.owner),
            &[change("j", 1, Some(again))],
            false,
            "tester",
        )
        .await
        .unwrap();
        let stale = Blocked::Stale {
            job_id: "j".to_owned(),
            decided_until: at,
        };
        assert_eq!(outcome, ApplyOutcome::Blocked(vec![stale]));
    }
    // Nor by deleting the job and bringing it back.
    assert!(matches!(
        delete(&anna(&farm.owner), &["j".to_owned()], "eve")
            .await
            .unwrap(),
        ApplyOutcome::Done { .. }
    ));
    let outcome = apply(&anna(&farm.owner), &[change("j", 0, Some(at))], false, "tester")
        .await
        .unwrap();
    assert!(matches!(outcome, ApplyOutcome::Blocked(_)));
    let back = applied(&farm, &[change("j", 0, Some(past(-60)))], false).await;
    assert_eq!(back, [("j".to_owned(), 2, Change::Created)]);
}

#[tokio::test]
async fn an_apply_waits_for_the_firing_in_flight_and_then_knows_it() {
    let farm = Farm::new().await;
    let at = past(60);
    applied(&farm, &[change("j", 0, Some(at))], false).await;
    let firing = farm.test.client().await;
    firing
        .exec("BEGIN; UPDATE farmhand.job SET next_run = now() + interval '1 hour', decided_until = next_run")
        .await;
    let db = farm.owner.clone();
    let applying = tokio::spawn(async move {
        apply(&anna(&db), &[change("j", 1, Some(at))], false, "tester")
            .await
            .unwrap()
    });
    until_blocked(&farm).await;
    firing.exec("COMMIT").await;
    let stale = Blocked::Stale {
        job_id: "j".to_owned(),
        decided_until: at,
    };
    assert_eq!(applying.await.unwrap(), ApplyOutcome::Blocked(vec![stale]));
}

#[tokio::test]
async fn a_paused_job_fires_nothing_and_resumes_where_it_is_told() {
    let farm = Farm::new().await;
    let (soon, later) = (past(-60), past(-600));
    applied(&farm, &[change("j", 0, Some(soon))], false).await;
    assert_eq!(
        pause(&anna(&farm.db), "j", "eve", Some("holidays"))
            .await
            .unwrap(),
        Paused::Done
    );
    assert_eq!(
        pause(&anna(&farm.db), "j", "eve", None).await.unwrap(),
        Paused::Already
    );
    assert_eq!(
        pause(&anna(&farm.db), "nobody", "eve", None).await.unwrap(),
        Paused::NotFound
    );
    let paused = job(&farm.db, "j").await.unwrap().unwrap();
    assert_eq!(
        (paused.next_run, paused.paused_by.as_deref()),
        (None, Some("eve"))
    );
    // A new revision does not wake it.
    applied(&farm, &[change("j", 4, Some(soon))], false).await;
    assert_eq!(job(&farm.db, "j").await.unwrap().unwrap().next_run, None);

    let missed_until = past(10);
    let missed = SkipFold {
        reason: SkipReason::Paused,
        first: past(50),
        last: missed_until,
        count: 5,
    };
    let done = resume(&anna(&farm.db), "j", 2, Some(later), &[missed], "eve")
        .await
        .unwrap();
    assert_eq!(done, Resumed::Done);
    assert_eq!(
        resume(&anna(&farm.db), "j", 2, Some(later), &[], "eve")
            .await
            .unwrap(),
        Resumed::NotPaused
    );
    let awake = job(&farm.db, "j").await.unwrap().unwrap();
    assert_eq!((awake.next_run, awake.paused), (Some(later), false));
    farm.is("SELECT count FROM farmhand.run WHERE reason = 'paused'", 5)
        .await;

    pause(&anna(&farm.db), "j", "eve", None).await.unwrap();
    let stale = resume(&anna(&farm.db), "j", 2, Some(missed_until), &[], "eve")
        .await
        .unwrap();
    let decided_until = awake.decided_until.unwrap();
    assert_eq!(stale, Resumed::Stale { decided_until });
}

#[tokio::test]
async fn a_schedule_that_an_apply_replaces_meanwhile_is_not_resumed() {
    let farm = Farm::new().await;
    farm.job("j", spec(), None).await;
    pause(&anna(&farm.db), "j", "eve", None).await.unwrap();
    let applying = farm.test.client().await;
    let seq = "BEGIN; UPDATE farmhand.job_seq SET seq = seq + 1";
    applying.exec(seq).await;
    applying.exec(APPLY).await;
    let db = farm.db.clone();
    // The first revision has no schedule.
    let resuming = tokio::spawn(async move { resume(&anna(&db), "j", 1, None, &[], "eve").await.unwrap() });
    until_blocked(&farm).await;
    applying.exec("COMMIT").await;
    assert_eq!(resuming.await.unwrap(), Resumed::Changed);
    assert!(job(&farm.db, "j").await.unwrap().unwrap().paused);
}

#[tokio::test]
async fn jobs_are_listed_in_pages_by_name() {
    let farm = Farm::new().await;
    let set: Vec<_> = ["c", "a", "b"].map(|j| change(j, 0, None)).to_vec();
    applied(&farm, &set, false).await;
    let page = list_jobs(&farm.db, None, 2).await.unwrap();
    assert_eq!(
        page.iter().map(|j| j.job_id.as_str()).collect::<Vec<_>>(),
        ["a", "b"]
    );
    let rest = list_jobs(&farm.db, Some("b"), 2).await.unwrap();
    assert_eq!(rest.iter().map(|j| j.job_id.as_str()).collect::<Vec<_>>(), ["c"]);
}

/// Each minute of ten, an hour ago.
fn ten_minutes() -> JobSpec {
    JobSpec {
        schedule: vec!["* * * * *".to_owned()],
        start: Some(past(3600).to_string()),
        end: Some(past(3000).to_string()),
        ..spec()
    }
}

#[tokio::test]
async fn what_fell_into_a_pause_is_recorded_before_another_schedule_is_applied() {
    let farm = Farm::new().await;
    for name in ["changed", "removed", "pruned"] {
        farm.job(name, ten_minutes(), None).await;
        pause(&anna(&farm.db), name, "eve", None).await.unwrap();
    }
    let earlier = "UPDATE farmhand.job SET paused_at = now() - interval '2 hours'";
    farm.exec(earlier).await;
    delete(&anna(&farm.owner), &["removed".to_owned()], "eve")
        .await
        .unwrap();
    let longer = JobSpec {
        start: Some(past(7000).to_string()),
        ..ten_minutes()
    };
    // The second time there is nothing that has no record.
    for spec in [longer, spec()] {
        let changed = JobChange {
            spec,
            ..change("changed", 0, None)
        };
        applied(&farm, &[changed], true).await;
    }
    let rows = farm
        .sql
        .query(
            "SELECT job_id, rev, state, count, first_due >= $1 AND last_due < $2
             FROM farmhand.run WHERE reason = 'paused' ORDER BY job_id",
            &[&past(3600), &past(3000)],
        )
        .await
        .unwrap();
    let rows: Vec<(String, i64, String, i64, bool)> = (rows.iter())
        .map(|r| (r.get(0), r.get(1), r.get(2), r.get(3), r.get(4)))
        .collect();
    let of = |job: &str| (job.to_owned(), 1, "skipped".to_owned(), 10, true);
    assert_eq!(rows, ["changed", "pruned", "removed"].map(of));
    let job = job(&farm.db, "changed").await.unwrap().unwrap();
    assert!(
        job.paused && job.decided_until > Some(past(1)),
        "the next schedule counts from here: {job:?}"
    );
}
