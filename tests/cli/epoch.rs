//! Which database it is, and a new epoch by hand.

use crate::farm::{Farm, command, ran};

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_is_shown_and_bumped_once_it_is_confirmed() {
    let farm = Farm::new().await;
    let shown = farm.run(&["epoch"]).ok().out;
    for part in [
        "epoch      1\n",
        "fences     above 1099511627776\n",
        " by migrate\n",
        "claims     open\n",
    ] {
        assert!(shown.contains(part), "{part:?} is missing: {shown}");
    }
    farm.run(&["epoch", "bump"]).refused(
        4,
        &["nothing was done", "no terminal", "--yes", "cannot be undone"],
    );
    let bumped = farm
        .run(&["epoch", "bump", "--above", "7696581394433", "--yes"])
        .ok();
    assert_eq!(
        bumped.out,
        "epoch 8 follows 1; the next fence is above 8796093022208\n"
    );
    assert!(bumped.err.contains("start agents now"), "{bumped:?}");
    let shown = farm.run(&["epoch", "--json"]).json();
    assert_eq!(
        (shown["epoch"].as_i64(), shown["open"].as_bool()),
        (Some(8), Some(false))
    );
    assert_eq!(shown["closed_because"], "bumped");
    let checks = farm.run(&["doctor", "--json"]).out;
    assert!(
        checks.contains("epoch 8 is closed: `farmhand epoch bump` was run"),
        "{checks}"
    );
    let events = farm.run(&["events", "--kind", "epoch_bumped", "--json"]).json();
    assert_eq!(events["items"][0]["detail"]["epoch"], 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bump_that_makes_no_sense_is_refused_and_changes_nothing() {
    let farm = Farm::new().await;
    for (above, code, said) in [
        ("0", 2, "0 is not in 1.."),
        ("fence", 2, "invalid value"),
        ("9223372036854775807", 2, "cannot be a fence of this farm"),
        ("5", 4, "every next fence is above 5 already"),
        ("1099511627776", 4, "above 1099511627776 already"),
    ] {
        farm.run(&["epoch", "bump", "--yes", "--above", above])
            .refused(code, &[said]);
    }
    let operator = ran(command(&farm.db.operator_url(), farm.dir.path()).args(["epoch", "bump", "--yes"]));
    operator.refused(6, &["permission denied"]);
    assert_eq!(farm.run(&["epoch", "--json"]).json()["epoch"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_due_while_claims_are_closed_can_be_paused_disabled_and_removed() {
    let farm = Farm::new().await;
    let job =
        |name: &str, key: &str| format!("[job.{name}]\ncommand = 'true'\nschedule = '0 * * * *'\n{key}\n");
    farm.apply(&format!("{}{}{}", job("a", ""), job("b", ""), job("c", "")));
    farm.run(&["epoch", "bump", "--yes"]).ok();
    let client = farm.db.client().await;
    let due = "UPDATE farmhand.job SET next_run = date_trunc('hour', now()) - interval '1 hour'";
    client.exec(due).await;
    // What stays enabled is to be run later, not skipped.
    let changed = farm.file("jobs.toml", &job("a", "priority = 5"));
    let refused = farm.run(&["job", "apply", changed.to_str().unwrap()]);
    assert_eq!(refused.code, 4, "{refused:?}");
    for part in ["claims are closed", "farmhand job pause", "farmhand epoch"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    farm.run(&["job", "pause", "a"]).ok();
    farm.run(&["job", "apply", changed.to_str().unwrap()]).ok();
    farm.apply(&job("b", "enabled = false"));
    farm.run(&["job", "rm", "c", "--yes"]).ok();
    let runs = farm.run(&["run", "ls", "--json"]).json();
    let mut told: Vec<String> = (runs["items"].as_array().unwrap().iter())
        .map(|run| format!("{} {} {}", run["job_id"], run["state"], run["reason"]).replace('"', ""))
        .collect();
    told.sort();
    told.dedup();
    assert_eq!(
        told,
        ["a skipped paused", "b skipped withdrawn", "c skipped withdrawn"]
    );
}
