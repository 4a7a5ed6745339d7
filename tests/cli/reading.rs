//! Reading commands: tables for people, stable JSON for programs.

use serde_json::json;

use super::farm::{Farm, ran};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_list_is_an_empty_page() {
    let farm = Farm::new().await;
    for list in ["job ls", "run ls", "node ls", "lease ls", "pool ls", "events"] {
        let words: Vec<&str> = list.split(' ').chain(["--json"]).collect();
        let json = farm.run(&words).json();
        assert_eq!(json, json!({"items": [], "next": null}), "{list}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_and_events_are_chosen_by_time() {
    let mut farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\n");
    farm.agent("n1");
    for _ in 0..3 {
        farm.run(&["job", "run", "a", "--wait"]).ok();
    }
    let listed = |args: &[&str]| -> Vec<i64> {
        let all = [&["run", "ls", "--json"], args].concat();
        let items = farm.run(&all).json()["items"].take();
        let items = items.as_array().unwrap().iter();
        items.map(|run| run["run_id"].as_i64().unwrap()).collect()
    };
    let all = listed(&[]);
    assert_eq!(all.len(), 3);
    assert_eq!(listed(&["--since", "1h"]), all);
    assert_eq!(
        listed(&["--since", "2001-01-01", "--until", "2001-01-02"]),
        Vec::<i64>::new()
    );
    assert_eq!(listed(&["--until", "1h"]), Vec::<i64>::new());
    let first = farm.run(&["run", "ls", "--json", "--limit", "2"]).json();
    let cursor = first["next"].as_str().unwrap();
    assert_eq!(listed(&["--cursor", cursor]), all[2..]);
    farm.run(&["run", "ls", "--since", "yesterday"])
        .refused(2, &["--since \"yesterday\"", "8h", "2026-03-29"]);
    let events = |args: &[&str]| farm.run(&[&["events", "--json"], args].concat()).json();
    let newest = events(&["--limit", "1"]);
    let after = events(&["--limit", "1", "--cursor", newest["next"].as_str().unwrap()]);
    assert!(
        newest["items"][0]["event_id"].as_i64() > after["items"][0]["event_id"].as_i64(),
        "{newest:#} {after:#}"
    );
    assert_eq!(
        events(&["--since", "1h", "--kind", "run_submitted"]),
        events(&["--kind", "run_submitted"])
    );
    for (wrong, said) in [
        ("run_submited", "did you mean run_submitted?"),
        ("no-such-thing", "docs/reference/events.md"),
    ] {
        farm.run(&["events", "--kind", wrong])
            .refused(2, &[wrong, "session_opened, ", said]);
    }
    assert_eq!(events(&["--until", "1h"])["items"], json!([]));
    farm.stop_agents();
}

#[tokio::test(flavor = "multi_thread")]
async fn times_for_programs_are_rfc_3339_in_utc() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\nschedule = '0 12 * * *'\ntimezone = 'Asia/Tokyo'\n");
    let next = farm.run(&["job", "ls", "--json"]).json()["items"][0]["next_run"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(next.ends_with("T03:00:00Z"), "{next}");
    assert!(
        farm.run(&["status", "--json"]).json()["db_now"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn status_says_that_no_node_is_ready() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\n[job.b]\ncommand = 'true'\nenabled = false\n");
    let ran = farm.run(&["status"]).ok();
    assert!(ran.out.contains("1 enabled, 1 disabled"), "{ran:?}");
    assert!(ran.out.contains("no node is ready"), "{ran:?}");
}

#[test]
fn a_completion_script_needs_no_database() {
    for shell in ["bash", "zsh", "fish"] {
        let mut command = std::process::Command::new(farmhand_tests::bin::farmhand());
        let script = ran(command.env_clear().args(["completion", shell])).ok().out;
        assert!(script.contains("_FARMHAND_COMPLETE"), "{shell}: {script}");
    }
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let farmhand = farmhand_tests::bin::farmhand().display().to_string();
    let ran = ran(std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{farmhand} completion zsh | head -1")));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn next_shows_a_jobs_instants_and_the_farms() {
    let farm = Farm::new().await;
    farm.apply(
        "[job.noon]\ncommand = 'true'\nschedule = '0 12 * * *'\nend = '2027-01-03'\n[job.hand]\ncommand = 'true'\n",
    );
    let list = farm
        .run(&["next", "noon", "--from", "2027-01-01", "--json"])
        .json();
    assert_eq!(
        list["instants"],
        json!(["2027-01-01T12:00:00Z", "2027-01-02T12:00:00Z"])
    );
    let all = farm.run(&["next", "--json"]).json();
    assert_eq!(all.as_array().unwrap().len(), 1);
    assert_eq!(all[0]["job_id"], "noon");
    let none = farm.run(&["next", "hand"]).ok();
    assert!(none.err.contains("it has no schedule"), "{none:?}");
    farm.apply("[job.over]\ncommand = 'true'\nschedule = '0 12 * * *'\nend = '2020-01-01'\n");
    let over = farm.run(&["next", "over"]).ok();
    assert!(over.err.contains("its schedule has no instant left"), "{over:?}");
    farm.run(&["next", "nix"]).refused(3, &["no job nix"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn next_by_day_counts_what_is_due() {
    let farm = Farm::new().await;
    farm.apply(
        "[job.daily]\ncommand = 'true'\nschedule = '0 3 * * *'\n[job.twice]\ncommand = 'true'\nschedule = '0 3,4 * * *'\n
         [job.often]\ncommand = 'true'\nschedule = '@every 5s'\n",
    );
    let ahead = farm.run(&["next", "--by", "day", "--json"]).json();
    let of = |name: &str| {
        ahead["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|j| j["job_id"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(ahead["edges"].as_array().unwrap().len(), 8);
    assert_eq!(
        (&of("daily")["counts"][1], &of("twice")["counts"][6]),
        (&json!(1), &json!(2))
    );
    assert_eq!(of("often")["counts"], json!(null));
    let shown = farm.run(&["next", "--by", "day"]).ok();
    let tomorrow = shown.out.lines().nth(2).unwrap();
    assert!(
        tomorrow.contains(" 3 ") && tomorrow.contains("twice ×2, daily"),
        "{shown:?}"
    );
    assert!(shown.err.contains("often"), "{shown:?}");
    assert_eq!(
        farm.run(&["next", "--by", "hour", "--json"]).json()["edges"]
            .as_array()
            .unwrap()
            .len(),
        25
    );
    farm.run(&["next", "daily", "--by", "day"]).refused(2, &["--by"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_shown_as_it_was_written() {
    let farm = Farm::new().await;
    farm.apply(
        "[job.a]\ncommand = 'true'\ntimeout = '90s'\nretry = { max = 2, base = '1m' }\nlimits = { memory = '512MiB' }\numask = '077'\n",
    );
    let shown = farm.run(&["job", "show", "a"]).ok().out;
    for line in [
        "timeout = \"1m30s\"",
        "base = \"1m\"",
        "[limits]\nmemory = \"512MiB\"",
        "umask = \"077\"",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_with_a_rare_filter_stops_early_and_says_how_to_go_on() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = ['true']\n\n");
    let client = farm.db.client().await;
    // The oldest of 200,001 runs ended on b, all others nowhere.
    client.exec(
        "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, \
         reason, ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due, running_at) \
         SELECT n, 'a', 1, 'submitted', 0, 1, now(), now(), 'cancelled', 'x', 'cancel', 0, 0, 0, '{}', now(), now(), now(), \
         now(), CASE n WHEN 1 THEN 'b' END FROM generate_series(1, 200001) n"
    ).await;
    let first = farm.run(&["run", "ls", "--node", "b", "--json"]).json();
    assert_eq!(first["items"], json!([]));
    let cursor = first["next"].as_str().unwrap();
    let shown = farm.run(&["run", "ls", "--node", "b"]).ok();
    let said = format!("not all runs were looked through; further back: --cursor {cursor}");
    assert!(shown.err.contains(&said), "{shown:?}");
    let second = farm
        .run(&["run", "ls", "--node", "b", "--json", "--cursor", cursor])
        .json();
    assert_eq!(
        (&second["items"][0]["run_id"], &second["next"]),
        (&json!(1), &json!(null))
    );
}
