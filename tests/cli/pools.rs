//! Pools, locks and rates as people meet them.

use serde_json::json;

use crate::farm::Farm;

const JOBS: &str = "[pool.mailer]\nsize = 2\n[pool.disk]\nsize = 1\n\
    [job.mail]\npool = 'mailer'\nnode_pool = 'disk'\nlocks = ['x']\nrate = '10/1m'\ncommand = 'true'\n";

#[tokio::test(flavor = "multi_thread")]
async fn pools_come_with_job_files_and_are_resized_by_hand() {
    let farm = Farm::new().await;
    let file = farm.file("jobs.toml", JOBS);
    let file = file.to_str().unwrap();
    let plan = farm.run(&["job", "apply", "--dry-run", file]).ok();
    assert!(
        plan.out
            .starts_with("+ pool disk  size 1\n+ pool mailer  size 2\n"),
        "{plan:?}"
    );
    farm.run(&["job", "apply", file]).ok();
    let again = farm.run(&["job", "apply", "--json", file]).json();
    assert_eq!(again["applied"], false);
    assert_eq!(
        again["pools"][0],
        json!({"pool": "disk", "change": "unchanged", "size": 1})
    );
    let set = farm.run(&["pool", "set", "mailer", "7"]).ok();
    assert!(
        set.out
            .starts_with("mailer: 7 places instead of 2; 0 are taken, 0 runs wait"),
        "{set:?}"
    );
    assert!(set.out.contains("jobs.toml says 2"), "{set:?}");
    farm.run(&["job", "apply", file]).ok();
    let all = farm.run(&["pool", "ls", "--json"]).json()["items"].clone();
    assert_eq!(
        (&all[1]["name"], &all[1]["size"], &all[1]["file_size"]),
        (&json!("mailer"), &json!(7), &json!(2))
    );
    assert_eq!(all[1]["jobs"], json!(["mail"]));
    let table = farm.run(&["pool", "ls"]).ok();
    assert!(table.out.contains("mailer"), "{table:?}");
    farm.run(&["pool", "set", "nix", "1"])
        .refused(3, &["there is no pool nix", "farmhand pool ls"]);
    assert_eq!(farm.run(&["pool", "set", "mailer", "many"]).code, 2);
    assert_eq!(farm.run(&["pool", "set", "mailer", "-1"]).code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_who_has_what_a_run_waits_for() {
    let mut farm = Farm::new().await;
    farm.apply(
        "[pool.p]\nsize = 1\n[job.a]\npool = 'p'\ncommand = 'sleep 60'\n[job.b]\npool = 'p'\ncommand = 'true'\n\
         [job.l]\nlocks = ['x']\ncommand = 'sleep 60'\n[job.m]\nlocks = ['x', 'y']\ncommand = 'true'\n\
         [job.r]\nrate = '1/1h'\ncommand = 'true'\n[job.n]\nnode_pool = 'p'\ncommand = 'sleep 60'\n",
    );
    farm.agent("n1");
    let submit = |job: &str| farm.run(&["job", "run", job, "--json"]).json()["run_id"].to_string();
    let (a, l) = (submit("a"), submit("l"));
    submit("n");
    farm.run(&["job", "run", "r", "--wait"]).ok();
    for job in ["b", "m", "r", "n"] {
        submit(job);
    }
    let explain = |job: &str| {
        farmhand_tests::wait::eventually("the gate holds", std::time::Duration::from_secs(20), || {
            let said = farm.run(&["explain", "job", job, "--json"]).json();
            match said["held_by"].as_str() {
                Some("pool" | "lock" | "rate" | "node_pool") => Ok(said),
                _ => Err(said.to_string()),
            }
        })
    };
    let pool = explain("b");
    assert_eq!(pool["held_by"], "pool");
    let answer = pool["answer"].as_str().unwrap();
    assert!(
        answer.contains(&format!("1 of 1 are taken by run {a} (a on n1 since")),
        "{answer}"
    );
    let lock = explain("m");
    assert_eq!(lock["held_by"], "lock");
    let answer = lock["answer"].as_str().unwrap();
    assert!(
        answer.contains(&format!("the lock x: held by run {l}")),
        "{answer}"
    );
    assert_eq!(explain("r")["held_by"], "rate");
    assert_eq!(explain("n")["held_by"], "node_pool");
    let waiting = farm.run(&["run", "ls", "--json"]).json()["items"].clone();
    let reason = |job: &str| {
        let row = waiting
            .as_array()
            .unwrap()
            .iter()
            .find(|r| r["job_id"] == job && r["state"] == "due");
        row.map(|r| r["reason"].clone())
    };
    assert_eq!(reason("b"), Some(json!("pool")));
    assert_eq!(reason("m"), Some(json!("lock")));
    assert_eq!(reason("r"), Some(json!("rate")));
    assert_eq!(reason("n"), Some(json!("pool")));
}
