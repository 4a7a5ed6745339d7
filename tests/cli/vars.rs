//! `[vars]` and `--set`: staging and production from one set of files.

use serde_json::json;

use super::farm::Farm;

const JOBS: &str = "[vars]\nenv = 'staging'\non = false\nplaces = 1\n\
    [pool.p]\nsize = '${vars.places}'\n\
    [job.report]\nenabled = '${vars.on}'\npool = 'p'\nwhere = { env = '${vars.env}' }\n\
    command = 'report --to ${vars.env}.${vars.domain} \"$HOME\"'\n";

const STAGING: [&str; 2] = ["--set", "domain=example.com"];
const PRODUCTION: [&str; 8] = [
    "--set",
    "domain=example.com",
    "--set",
    "env=production",
    "--set",
    "on=true",
    "--set",
    "places=8",
];

#[tokio::test(flavor = "multi_thread")]
async fn one_set_of_files_is_checked_compared_signed_and_applied_for_each_farm() {
    let farm = Farm::new().await;
    let file = farm.file("jobs.toml", JOBS);
    let file = file.to_str().unwrap();
    let key = farm.dir.path().join("alice.key");
    let key = key.to_str().unwrap();
    let run = |words: &[&str], set: &[&str]| farm.run(&[&["job"], words, &[file], set].concat());
    for command in [
        &["check"][..],
        &["diff"],
        &["apply"],
        &["sign", "--key", "missing.key"],
    ] {
        let refused = run(command, &[]);
        assert_ne!(refused.code, 0, "{command:?}: {refused:?}");
    }
    let wrong = run(&["check"], &[]);
    for said in [
        "jobs.toml:11:",
        "variable `domain` is not defined",
        "write domain = \"value\" below [vars], or add --set domain=VALUE to the command",
    ] {
        assert!(wrong.out.contains(said), "{said}: {wrong:?}");
    }
    let typo = run(&["check"], &["--set", "domain=a", "--set", "envv=b"]);
    assert_eq!(typo.code, 2, "{typo:?}");
    assert!(typo.out.contains("did you mean --set env=…?"), "{typo:?}");
    run(&["check"], &STAGING).ok();

    run(&["apply"], &STAGING).ok();
    let spec = || farm.run(&["job", "show", "report", "--json"]).json()["spec"].clone();
    let staging = spec();
    assert_eq!(
        staging["command"],
        json!("report --to staging.example.com \"$HOME\"")
    );
    assert_eq!(
        (&staging["enabled"], &staging["where"]),
        (&json!(false), &json!({"env": "staging"}))
    );
    run(&["diff", "--exit-code"], &STAGING).ok();
    let differs = run(&["diff", "--exit-code"], &PRODUCTION);
    assert_eq!(differs.code, 14, "{differs:?}");
    assert!(differs.out.contains("production"), "{differs:?}");

    farm.run(&["key", "new", "alice", "-o", key]).ok();
    run(&["sign", "--key", key], &PRODUCTION).ok();
    run(&["apply"], &STAGING).refused(4, &["has changed since it was signed"]);
    run(&["apply"], &PRODUCTION).ok();
    let production = spec();
    assert_eq!(
        production["command"],
        json!("report --to production.example.com \"$HOME\"")
    );
    assert_eq!(
        (&production["enabled"], &production["where"]),
        (&json!(true), &json!({"env": "production"}))
    );
    let pools = farm.run(&["pool", "ls", "--json"]).json();
    assert_eq!(pools["items"][0]["size"], 8, "{pools}");
}
