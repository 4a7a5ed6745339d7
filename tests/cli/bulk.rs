//! Many runs are cancelled, and run again, by what they have in common.

use serde_json::json;

use super::farm::Farm;

const JOBS: &str = "[job.a]\ncommand = ['true']\n[job.b]\ncommand = ['true']\n";

async fn queued(farm: &Farm, job: &str, count: i64) {
    let client = farm.db.client().await;
    client
        .exec_with(
            "INSERT INTO farmhand.run_live (job_id, rev, kind, instance, due_at, ready_at)
             SELECT $1, 1, 'submitted', 0, now() - n * interval '1 minute', now() - n * interval '1 minute'
             FROM generate_series(1, $2::bigint) n",
            &[&job, &count],
        )
        .await;
}

async fn ended(farm: &Farm, job: &str, state: &str, hours: i64) {
    let client = farm.db.client().await;
    client.exec_with(
        "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state,
             ended_by, running_at, session, fence, attempt, retries, takeovers, params, created_at, claimed_at,
             finished_at, first_due, last_due)
         SELECT nextval('farmhand.run_id_seq'), $1, 1, 'submitted', 0, 1, now(), now(), $2, 'holder', 'n1', 1, 1, 1, 0, 0,
             '{}', now(), now(), now() - $3::float8 * interval '1 hour', now(), now()",
        &[&job, &state, &(hours as f64)],
    ).await;
}

fn live(farm: &Farm) -> usize {
    let list = farm
        .run(&["run", "ls", "--state", "due", "--limit", "1000", "--json"])
        .json();
    list["items"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_queued_runs_are_cancelled_by_one_command_and_not_without_yes() {
    let farm = Farm::new().await;
    farm.apply(JOBS);
    queued(&farm, "a", 200).await;
    queued(&farm, "b", 3).await;
    farm.run(&["run", "cancel", "--job", "a"]).refused(
        4,
        &[
            "this would cancel 200 runs of a",
            "nothing was cancelled",
            "add --yes",
            "and 190 more",
        ],
    );
    assert_eq!(live(&farm), 203);
    let done = farm
        .run(&["run", "cancel", "--job", "a", "--yes", "--json"])
        .json();
    let results = done.as_array().unwrap();
    assert_eq!(results.len(), 200);
    assert!(results.iter().all(|r| r["result"] == "cancelled"), "{done:#}");
    let told = farm.run(&["events", "--job", "a", "--json"]).json();
    let told: Vec<_> = (told["items"].as_array().unwrap().iter())
        .filter(|event| event["kind"].as_str().unwrap().starts_with("cancel"))
        .map(|event| (&event["kind"], &event["detail"]["runs"]))
        .collect();
    assert_eq!(told, [(&json!("cancel_many"), &json!(200))]);
    let shown = farm.run(&["run", "show", &results[0]["run_id"].to_string()]).ok();
    assert!(
        shown.out.contains("cancelled by") && shown.out.contains('@'),
        "{shown:?}"
    );
    let left = farm.run(&["run", "ls", "--state", "due", "--json"]).json();
    let jobs: Vec<_> = (left["items"].as_array().unwrap().iter())
        .map(|r| &r["job_id"])
        .collect();
    assert_eq!(jobs, [&json!("b"), &json!("b"), &json!("b")]);
    let none = farm.run(&["run", "cancel", "--job", "a", "--yes"]).ok();
    assert!(none.err.contains("no run matches"), "{none:?}");
    // Since when they were due.
    farm.run(&["run", "cancel", "--job", "b", "--until", "150s", "--yes"])
        .ok();
    assert_eq!(live(&farm), 2);
    farm.run(&["run", "cancel", "--state", "due", "--since", "90s", "--yes"])
        .ok();
    assert_eq!(live(&farm), 1);
    farm.run(&["run", "cancel", "--job", "bb", "--yes"])
        .refused(3, &["there is no job bb", "did you mean b?"]);
    farm.run(&["run", "cancel"]).refused(2, &["RUN"]);
    farm.run(&["run", "cancel", "1", "--job", "b"])
        .refused(2, &["cannot be used with"]);
    farm.run(&["run", "cancel", "--state", "failed", "--yes"])
        .refused(2, &["due or running"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_waiting_runs_are_cancelled_by_one_command() {
    let farm = Farm::new().await;
    farm.apply(JOBS);
    queued(&farm, "a", 20_000).await;
    queued(&farm, "b", 1).await;
    farm.run(&["run", "cancel", "--job", "a"])
        .refused(4, &["this would cancel 20000 runs of a", "and 19990 more"]);
    let done = farm.run(&["run", "cancel", "--job", "a", "--yes"]).ok();
    assert_eq!(done.out.lines().count(), 20_000);
    let client = farm.db.client().await;
    let left = "SELECT count(*) FILTER (WHERE state = 'cancelled'), count(*) FILTER (WHERE state = 'due') FROM farmhand.run";
    let left = client.query_one(left, &[]).await.unwrap();
    assert_eq!((left.get(0), left.get(1)), (20_000_i64, 1_i64));
}

#[tokio::test(flavor = "multi_thread")]
async fn last_nights_failures_are_run_again_by_one_command() {
    let farm = Farm::new().await;
    farm.apply(JOBS);
    for (job, state, hours) in [
        ("a", "failed", 2),
        ("a", "timed_out", 3),
        ("b", "lost", 4),
        ("b", "succeeded", 2),
        ("b", "failed", 30),
    ] {
        ended(&farm, job, state, hours).await;
    }
    farm.run(&["run", "retry", "--since", "8h"]).refused(
        4,
        &[
            "this would run 2 runs of 2 jobs again",
            "1 run of an earlier firing is left out, and taken with `all`",
            "nothing was run",
            "add --yes",
        ],
    );
    assert_eq!(live(&farm), 0);
    let done = farm
        .run(&["run", "retry", "--since", "8h", "--all", "--yes", "--json"])
        .json();
    let made: Vec<_> = (done.as_array().unwrap().iter()).map(|r| &r["result"]).collect();
    assert_eq!(made, ["retried", "retried", "retried"], "{done:#}");
    assert_eq!(live(&farm), 3);
    farm.run(&["run", "retry", "--job", "b", "--state", "failed", "--yes"])
        .ok();
    assert_eq!(live(&farm), 4);
    // By number, with some that have none.
    let failed = farm.run(&["run", "ls", "--state", "failed", "--json"]).json();
    let ids: Vec<String> = (failed["items"].as_array().unwrap().iter())
        .map(|r| r["run_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 2, "{failed}");
    let some = farm.run(&["run", "retry", &ids[0], "999999", &ids[1]]);
    assert_eq!(some.code, 3, "{some:?}");
    assert!(some.err.contains("there is no run 999999"), "{some:?}");
    assert_eq!(live(&farm), 6);
    farm.run(&["run", "retry", &ids[0], &ids[1], &ids[0]]).ok();
    assert_eq!(live(&farm), 8);
    farm.run(&["run", "retry", "--state", "due", "--yes"])
        .refused(2, &["has not ended"]);
    farm.run(&["run", "retry", "--job", "a", "--follow", "--yes"])
        .refused(2, &["cannot be used with"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_run_again_already_is_left_out_and_counted() {
    let farm = Farm::new().await;
    farm.apply(JOBS);
    ended(&farm, "a", "failed", 2).await;
    ended(&farm, "b", "failed", 3).await;
    let again = ["run", "retry", "--since", "8h", "--yes"];
    farm.run(&again).ok();
    assert_eq!(live(&farm), 2);
    let none = farm.run(&again).ok();
    for said in ["2 runs were run again already and are left out", "no run matches"] {
        assert!(none.err.contains(said), "{none:?}");
    }
    assert_eq!(live(&farm), 2);
    // A retry that failed, too, is the one to be run again.
    let client = farm.db.client().await;
    let fail = "WITH gone AS (DELETE FROM farmhand.run_live r WHERE r.job_id = 'a' RETURNING r)
        INSERT INTO farmhand.run_history
        SELECT k.* FROM gone g CROSS JOIN LATERAL farmhand.ended(g.r, 'failed', NULL, 'holder') k";
    client.exec(fail).await;
    let asked = farm.run(&["run", "retry", "--since", "8h"]);
    assert_eq!(asked.code, 4, "{asked:?}");
    for said in [
        "this would run 1 run of a again",
        "2 runs were run again already and are left out",
    ] {
        assert!(asked.err.contains(said), "{asked:?}");
    }
    // By its number it is run again as often as somebody says so.
    let oldest = "SELECT min(run_id) FROM farmhand.run_history";
    let oldest: i64 = client.value(oldest).await;
    farm.run(&["run", "retry", &oldest.to_string()]).ok();
    assert_eq!(live(&farm), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_firing_is_cancelled_when_the_run_that_is_named_has_ended() {
    let farm = Farm::new().await;
    farm.apply("[job.shards]\ncommand = ['true']\ninstances = 3\n");
    let first = farm.run(&["job", "run", "shards", "--json"]).json()["run_id"].to_string();
    farm.run(&["run", "cancel", &first]).ok();
    let others = farm.run(&["run", "cancel", "--firing", &first]).ok().out;
    assert_eq!(
        others.matches("is cancelled before it starts").count(),
        2,
        "{others}"
    );
    let ended = format!("run {first} has already ended: cancelled");
    farm.run(&["run", "cancel", "--firing", &first])
        .refused(4, &[&ended]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_firings_is_counted_before_it_is_confirmed() {
    let farm = Farm::new().await;
    farm.apply("[job.shards]\ncommand = ['true']\ninstances = 3\n");
    farm.run(&["job", "run", "shards"]).ok();
    let client = farm.db.client().await;
    let earlier = "UPDATE farmhand.run_live SET due_at = now() - interval '1 day' WHERE instance = 0";
    client.exec(earlier).await;
    farm.run(&["run", "cancel", "--until", "1h", "--firing"])
        .refused(4, &["this would cancel 3 runs of shards"]);
}

/// How many runs of `a` are due, and how many of them may begin.
async fn due_and_free(farm: &Farm) -> (i64, i64) {
    let sql =
        "SELECT count(*), count(*) FILTER (WHERE gate IS NULL) FROM farmhand.run_live WHERE job_id = 'a'";
    let row = farm.db.client().await.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_job_that_failed_four_times_one_run_is_run_again_and_with_all_one_after_the_other() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = ['true']\noverlap = 'skip'\n");
    for hours in [5, 4, 3, 2] {
        ended(&farm, "a", "failed", hours).await;
    }
    farm.run(&["run", "retry", "--job", "a"]).refused(
        4,
        &["this would run 1 run of a again", "run 4 of a, failed, due 2"],
    );
    farm.run(&["run", "retry", "--job", "a", "--yes"]).ok();
    assert_eq!(due_and_free(&farm).await, (1, 1));
    // What is the newest is not another one because it was run again.
    let again = farm.run(&["run", "retry", "--job", "a", "--yes"]).ok();
    assert!(again.err.contains("no run matches"), "{again:?}");
    farm.run(&["run", "retry", "--job", "a", "--all", "--yes"]).ok();
    assert_eq!(due_and_free(&farm).await, (4, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_run_again_of_a_firing_is_all_that_failed_of_it() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = ['true']\noverlap = 'skip'\ninstances = 3\n");
    farm.run(&["job", "run", "a"]).ok();
    farm.run(&["job", "run", "a"]).ok();
    let fail = "WITH gone AS (DELETE FROM farmhand.run_live r RETURNING r)
        INSERT INTO farmhand.run_history SELECT k.* FROM gone g
        CROSS JOIN LATERAL farmhand.ended(g.r, CASE WHEN (g.r).instance = 1 THEN 'cancelled' ELSE 'failed' END, NULL, 'holder') k";
    farm.db.client().await.exec(fail).await;
    farm.run(&["run", "retry", "--job", "a", "--yes"]).ok();
    assert_eq!(due_and_free(&farm).await, (2, 2), "two shards of one firing");
    let newest = "SELECT count(*) FROM farmhand.run_live WHERE firing = (SELECT max(firing) FROM farmhand.run_history)";
    let of_it: i64 = farm.db.client().await.value(newest).await;
    assert_eq!(of_it, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_must_not_run_is_not_run_again() {
    let farm = Farm::new().await;
    farm.apply(JOBS);
    ended(&farm, "a", "failed", 2).await;
    farm.apply(&JOBS.replacen("command", "enabled = false\ncommand", 1));
    for again in [
        &["run", "retry", "1"][..],
        &["run", "retry", "--job", "a", "--yes"],
    ] {
        farm.run(again).refused(4, &["is not enabled", "enabled = true"]);
    }
    farm.run(&["job", "run", "a"]).refused(4, &["is not enabled"]);
    farm.run(&["job", "backfill", "a", "--from", "2026-01-01"])
        .refused(4, &["is not enabled"]);
    assert_eq!(live(&farm), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_line_of_a_job_that_must_not_run_is_replayed() {
    let farm = Farm::new().await;
    let stream = |key: &str| format!("[job.a]\ncommand = ['true']\n{key}\n[job.a.stream]\nfile = '/l'\n");
    farm.apply(&stream(""));
    ended(&farm, "a", "failed", 2).await;
    let line = "INSERT INTO farmhand.stream_item (run_id, item, outcome, attempt, failures, line, stored_at)
        VALUES (1, 7, 'failed', 1, 3, 'seven', now())";
    farm.db.client().await.exec(line).await;
    for (key, why) in [
        ("enabled = false", "is not enabled"),
        ("observe = true\nschedule = '@daily'", "observes"),
    ] {
        farm.apply(&stream(key));
        farm.run(&["run", "replay", "1"])
            .refused(4, &["the job of run 1", why]);
        assert_eq!(live(&farm), 0);
    }
    farm.apply(&stream(""));
    farm.run(&["run", "replay", "1"]).ok();
    assert_eq!(live(&farm), 1);
}
