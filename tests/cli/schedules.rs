//! Calendars, boots, backfills: what becomes of a job's schedule, seen from the command line.

use std::time::Duration;

use farmhand_tests::acting::anna;
use farmhand_tests::wait::eventually;
use jiff::Timestamp;
use serde_json::json;

use super::farm::Farm;

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_makes_the_missing_runs_in_order_and_none_twice() {
    let mut farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\nschedule = '0 * * * *'\noverlap = 'skip'\n");
    let range = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T05:00:00Z"];
    let with = |more: &[&str]| -> Vec<String> {
        let all = [&["job", "backfill", "a"][..], &range[..], more].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let run = |farm: &Farm, args: Vec<String>| farm.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let preview = run(&farm, with(&["--dry-run"])).ok();
    assert_eq!(preview.out.lines().count(), 5, "{preview:?}");
    assert!(preview.err.contains("5 runs would be made"), "{preview:?}");
    assert_eq!(farm.run(&["run", "ls", "--json"]).json()["items"], json!([]));
    let refused = run(&farm, with(&["--max", "4"]));
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("more than 4"), "{refused:?}");

    let unasked = run(&farm, with(&[]));
    assert_eq!(unasked.code, 4, "{unasked:?}");
    for said in ["this would make 5 runs of a", "no runs were made", "--yes"] {
        assert!(unasked.err.contains(said), "{unasked:?}");
    }
    assert_eq!(farm.run(&["run", "ls", "--json"]).json()["items"], json!([]));

    let made = run(&farm, with(&["--yes", "--json"])).json();
    assert_eq!(made["run_ids"].as_array().unwrap().len(), 5, "{made}");
    let again = run(&farm, with(&["--yes", "--json"])).json();
    assert_eq!(again["run_ids"], json!([]));
    assert_eq!(again["already_run"], 5);
    // They wait for each other, the oldest first.
    let runs = farm.run(&["run", "ls", "--json"]).json()["items"].clone();
    let waiting = runs
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["reason"] == "overlap")
        .count();
    assert_eq!(waiting, 4, "{runs:#}");
    farm.agent("n1");
    let ended = eventually("all ran", Duration::from_secs(30), || {
        let runs = farm.run(&["run", "ls", "--json"]).json()["items"].clone();
        let mut done: Vec<(Timestamp, String)> = (runs.as_array().unwrap().iter())
            .filter(|r| r["state"] == "succeeded" && r["kind"] == "backfill")
            .map(|r| {
                let text = |key: &str| r[key].as_str().unwrap().to_owned();
                (text("started_at").parse().unwrap(), text("due_at"))
            })
            .collect();
        done.sort();
        if done.len() == 5 {
            Ok(done)
        } else {
            Err(format!("{runs:#}"))
        }
    });
    let due: Vec<&str> = ended.iter().map(|(_, due)| due.as_str()).collect();
    assert!(due.is_sorted(), "in the order of their instants: {ended:?}");
    let events = farm.run(&["events", "--json"]).ok();
    assert!(events.out.contains("\"backfill\""), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_pauses_a_job_is_told_of_the_runs_that_still_begin_and_who_removes_it_of_those_that_end() {
    let farm = Farm::new().await;
    farm.apply("[job.q]\ncommand = 'true'\n[job.r]\ncommand = 'true'\n");
    for _ in 0..2 {
        farm.run(&["job", "run", "q"]).ok();
    }
    let paused = farm.run(&["job", "pause", "q"]).ok();
    let still = "what waits (2 runs) still begins: `farmhand run cancel --job q --state due` takes it back";
    assert!(format!("{paused:?}").contains(still), "{paused:?}");
    farm.run(&["job", "rm", "q"])
        .refused(4, &["q is deleted (2 waiting, which are withdrawn)"]);
    // A run that nobody ends.
    let client = farm.db.client().await;
    let held = "UPDATE farmhand.run_live SET state = 'running', running_at = 'n1', session = 1, attempt = 1, fence = 1,
        claimed_at = now() WHERE run_id = (SELECT min(run_id) FROM farmhand.run_live)";
    client.exec(held).await;
    let would = "q is deleted (1 running now, which goes on; 1 waiting, which is withdrawn)";
    farm.run(&["job", "rm", "q"]).refused(4, &[would]);
    let removed = farm.run(&["job", "rm", "q", "--yes"]).ok();
    assert_eq!(
        removed.out.trim_end(),
        "q is deleted: 1 waiting run was withdrawn; 1 run goes on, and counts for the overlap of a new job of this name"
    );
    let quiet = farm.run(&["job", "pause", "r"]).ok();
    assert!(!format!("{quiet:?}").contains("waits"), "{quiet:?}");
    let applied = |text: &str| {
        let file = farm.file("more.toml", text);
        let file = file.to_str().unwrap();
        farm.run(&["job", "apply", "--source", "more", "--prune", "--yes", file])
            .ok()
    };
    applied("[job.s]\ncommand = 'true'\n");
    for _ in 0..2 {
        farm.run(&["job", "run", "s"]).ok();
    }
    let pruned = applied("[job.t]\ncommand = 'true'\n");
    assert!(
        pruned.err.contains("s: 2 waiting runs were withdrawn"),
        "{pruned:?}"
    );
}

/// What is asked and bounded is runs: an instant of a job with shards makes several.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_of_shards_counts_each_of_them() {
    let farm = Farm::new().await;
    farm.apply("[job.s]\ncommand = 'true'\nschedule = '0 * * * *'\ninstances = 50\n");
    let stretch = ["--from", "2020-01-01T00:00:00Z", "--to", "2020-01-01T04:00:00Z"];
    let fill = |more: &[&str]| farm.run(&[&["job", "backfill", "s"][..], &stretch, more].concat());
    let refused = fill(&["--max", "10", "--yes"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("200 runs would be made"), "{refused:?}");
    let would = fill(&["--max", "1000", "--dry-run"]).ok();
    assert!(would.err.contains("200 runs would be made"), "{would:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_leaves_out_instants_that_may_have_run() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\nschedule = '0 * * * *'\n");
    let client = farm.db.client().await;
    let sql = async |sql: &str| client.exec(sql).await;
    let plan = |day: &str| {
        let (from, to) = (format!("{day}T00:00:00Z"), format!("{day}T05:00:00Z"));
        let args = ["job", "backfill", "a", "--dry-run", "--from", &from, "--to", &to];
        let told = farm.run(&args).ok().err;
        let plan = farm.run(&[&args[..], &["--json"]].concat()).json();
        let instants = plan["instants"].as_array().unwrap().len();
        let numbers = (instants, plan["forgotten"].clone(), plan["rescheduled"].clone());
        (numbers, told)
    };
    // It has been there for years, and the history begins this week.
    sql("UPDATE farmhand.job_revision SET applied_at = '2020-02-01'").await;
    let (numbers, told) = plan("2026-01-01");
    assert_eq!(numbers, (0, json!(5), json!(0)), "{told}");
    assert!(
        told.contains("5 instants get no run: whether they ran is unknown"),
        "{told}"
    );
    assert_eq!(
        plan("2020-01-01").0,
        (5, json!(0), json!(0)),
        "nobody had applied it"
    );
    // The action says so as well, whatever its caller had planned.
    let old: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let db = farmhand_store::Db::new(&farm.db.config());
    let made = farmhand_store::jobs::backfill(&anna(&db), "a", 1, &[old], "eve").await;
    let none = farmhand_store::jobs::Backfilled::Done { run_ids: vec![] };
    assert_eq!(made.unwrap(), none);
    // With a history that goes back as far, it had no run then.
    sql(
        "CREATE TABLE farmhand.run_history_20200106 PARTITION OF farmhand.run_history
        FOR VALUES FROM ('2020-01-06T00:00:00Z') TO ('2020-01-13T00:00:00Z')",
    )
    .await;
    assert_eq!(plan("2026-01-01").0, (5, json!(0), json!(0)));
    // Another schedule came later: what the former one did is no instant of it. Another command changes nothing.
    farm.apply("[job.a]\ncommand = 'true'\nschedule = '30 * * * *'\n");
    farm.apply("[job.a]\ncommand = 'false'\nschedule = '30 * * * *'\n");
    sql("UPDATE farmhand.job_revision SET applied_at = '2026-03-01' WHERE rev = 2").await;
    let (numbers, told) = plan("2026-01-01");
    assert_eq!(numbers, (0, json!(0), json!(5)), "{told}");
    assert!(
        told.contains("5 instants get no run: the job had another schedule then"),
        "{told}"
    );
    assert_eq!(plan("2026-04-01").0, (5, json!(0), json!(0)));
    // So are business days with other holidays: the first one was the second of January, with last year's.
    let holiday = |day: &str, schedule: &str| {
        farm.apply(&format!(
            "[calendar.c]\nexclude = ['{day}']\n[job.a]\ncommand = 'true'\nschedule = '{schedule}'\ncalendars = ['c']\n"
        ));
    };
    holiday("2026-01-01", "0 3 1B * *");
    holiday("2027-01-01", "0 3 1B * *");
    sql("UPDATE farmhand.job_revision SET applied_at = '2025-06-01' WHERE rev = 4").await;
    sql("UPDATE farmhand.job_revision SET applied_at = '2026-03-01' WHERE rev = 5").await;
    assert_eq!(plan("2026-01-01").0, (0, json!(0), json!(1)));
    assert_eq!(plan("2026-04-01").0, (1, json!(0), json!(0)));
    // A calendar moves no other instants.
    holiday("2026-01-01", "0 3 * * *");
    holiday("2027-01-01", "0 3 * * *");
    sql("UPDATE farmhand.job_revision SET applied_at = '2025-06-01' WHERE rev = 6").await;
    assert_eq!(plan("2026-01-01").0, (1, json!(0), json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_gate_and_what_would_free_it() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\nschedule = '0 3 * * *'\nwhere = { role = 'db' }\n");
    let nothing = farm.run(&["explain", "job", "nix", "--json"]);
    nothing.refused(3, &["there is no job nix"]);
    let idle = farm.run(&["explain", "job", "a", "--json"]).json();
    assert_eq!(idle["held_by"], "schedule", "{idle}");
    farm.run(&["job", "run", "a"]).ok();
    let waiting = farm.run(&["explain", "job", "a", "--json"]).json();
    assert_eq!(waiting["held_by"], "nodes", "{waiting}");
    farm.run(&["job", "pause", "a", "--reason", "audit"]).ok();
    let paused = farm
        .run(&["explain", "job", "a", "--at", "2099-01-01T03:00:00Z"])
        .ok();
    assert!(paused.out.starts_with("a: it is paused by tester@"), "{paused:?}");
    assert!(
        paused.out.contains("what would free it: `farmhand job resume a`"),
        "{paused:?}"
    );
    let before = farm
        .run(&["explain", "job", "a", "--at", "2001-01-01T03:00:00Z", "--json"])
        .json();
    assert_eq!(before["held_by"], "exists");
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_compared_and_rolled_back() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\npriority = 1\n");
    let new = "[job.a]\ncommand = 'true'\npriority = 2\ntimeout = '5m'\n[job.b]\ncommand = 'true'\n";
    let file = farm.file("new.toml", new);
    let diff = farm
        .run(&["job", "diff", "--take-over", file.to_str().unwrap()])
        .ok();
    assert_eq!(
        diff.out,
        "~ a\n  - priority = 1\n  + priority = 2\n  - timeout = null\n  + timeout = 300000\n+ b\n"
    );
    farm.run(&["job", "apply", "--take-over", file.to_str().unwrap()])
        .ok();
    assert_eq!(farm.run(&["job", "diff", file.to_str().unwrap()]).ok().out, "");
    let diff = farm.run(&["job", "diff", "--job", "a", "--json"]).json();
    assert_eq!(diff["keys"]["priority"], json!({"old": 1, "new": 2}));

    farm.run(&["job", "rollback", "a", "1", "--dry-run"]).ok();
    assert_eq!(farm.run(&["job", "show", "a", "--json"]).json()["job"]["rev"], 2);
    let back = farm.run(&["job", "rollback", "a", "1", "--json"]).json();
    assert_eq!(
        (&back["diff"][0]["job_id"], &back["applied"]),
        (&json!("a"), &json!(true))
    );
    let job = farm.run(&["job", "show", "a", "--json"]).json();
    assert_eq!(job["job"]["rev"], 3);
    assert_eq!(job["spec"]["priority"], 1);
    assert_eq!(job["spec"]["timeout"], json!(null));
    let by = job["revisions"][0]["applied_by"].as_str().unwrap();
    assert!(by.starts_with("tester@"), "{by}");
    let from = job["revisions"][0]["source"].as_str().unwrap();
    assert!(from.starts_with("rollback to revision 1"), "{from}");
    farm.run(&["job", "rollback", "a", "1"]).ok();
    assert_eq!(farm.run(&["job", "show", "a", "--json"]).json()["job"]["rev"], 3);
    farm.run(&["job", "rollback", "a", "9"])
        .refused(3, &["has no revision 9"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn next_of_a_frequent_job_is_folded_and_leaves_excluded_days_out() {
    let farm = Farm::new().await;
    farm.apply(
        "[calendar.c]\nexclude = ['2030-01-02..2030-01-03']\n[calendar.only]\ninclude = ['2030-07-05']\n\
         [job.count]\ncommand = 'true'\nschedule = '0 18 * * *'\ncalendars = ['only']\n\
         [job.often]\ncommand = 'true'\nschedule = '* * * * *'\n\
         [job.days]\ncommand = 'true'\nschedule = '@daily'\ncalendars = ['c']\n",
    );
    let often = farm
        .run(&["next", "often", "--from", "2030-01-01", "--count", "60"])
        .ok();
    assert_eq!(
        often.out,
        "2030-01-01 00:01:00Z to 2030-01-01 01:00:00Z: every 1m, 60 times\n"
    );
    let list = farm
        .run(&["next", "days", "--from", "2030-01-01", "--count", "2", "--json"])
        .json();
    assert_eq!(
        list["instants"],
        json!(["2030-01-04T00:00:00Z", "2030-01-05T00:00:00Z"])
    );
    let all = farm.run(&["next", "--json"]).json();
    let count = all
        .as_array()
        .unwrap()
        .iter()
        .find(|job| job["job_id"] == "count")
        .unwrap();
    assert_eq!(count["at"], "2030-07-05T18:00:00Z");
    let ahead = farm.run(&["next", "--by", "day", "--json"]).json();
    let jobs = ahead["jobs"].as_array().unwrap().iter();
    let names: Vec<&str> = jobs.map(|job| job["job_id"].as_str().unwrap()).collect();
    assert_eq!(names, ["days", "often"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn start_end_and_spread_shape_what_is_due() {
    let farm = Farm::new().await;
    farm.apply(
        "[job.a]\ncommand = 'true'\nschedule = '0 * * * *'\nspread = '10m'\ntimezone = 'Europe/Berlin'\n\
         start = '2030-01-01'\nend = '2030-01-02'\n",
    );
    let next = farm.run(&["next", "a", "--count", "100", "--json"]).json();
    let instants: Vec<jiff::Timestamp> = serde_json::from_value(next["instants"].clone()).unwrap();
    assert_eq!(instants.len(), 24);
    let offset = instants[0].as_second().rem_euclid(3600);
    assert!(offset < 600, "{instants:?}");
    assert!(instants.iter().all(|t| t.as_second().rem_euclid(3600) == offset));
    let (start, end) = ("2029-12-31T23:00:00Z", "2030-01-01T23:00:00Z");
    assert!(instants[0] >= start.parse().unwrap() && instants[23] < end.parse().unwrap());
    let job = farm.run(&["job", "show", "a", "--json"]).json();
    assert_eq!(job["job"]["next_run"], json!(instants[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_zone_tzdata_has_lost_can_still_be_paused_changed_and_deleted() {
    let mut farm = Farm::new().await;
    let job = |name: &str| format!("[job.{name}]\ncommand = 'true'\nschedule = '0 * * * *'\n");
    farm.apply(&["a", "b", "c"].map(job).concat());
    let client = farm.db.client().await;
    let lost = "UPDATE farmhand.job_revision SET spec = jsonb_set(spec, '{timezone}', '\"No/Where\"');
        UPDATE farmhand.job SET next_run = now() - interval '1 hour'";
    client.exec(lost).await;
    // What is stopped needs no schedule.
    farm.run(&["job", "pause", "a"]).ok();
    farm.run(&["job", "rm", "b", "--yes"]).ok();
    // While no agent is there, one that can read it may still come.
    let file = farm.file("jobs.toml", &job("c"));
    let refused = farm.run(&["job", "apply", file.to_str().unwrap()]);
    assert!(
        refused.code == 4 && refused.err.contains("No/Where"),
        "{refused:?}"
    );
    farm.agent("n1");
    farm.apply(&job("c"));
    let runs = farm.run(&["run", "ls", "--json"]).json()["items"].clone();
    let missed = |r: &serde_json::Value| r["job_id"] == "c" && r["reason"] == "missed";
    assert!(runs.as_array().unwrap().iter().any(missed), "{runs:#}");
    farm.stop_agents();
}
