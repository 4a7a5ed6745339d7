//! What whoever submits a run may give along is data: never a command, an option of another program, or a variable that
//! a loader obeys.

use farmhand_tests::farm::{CALM, Farm, SOON};
use serde_json::{Value, json};

const JOBS: &str = r#"
[job.argument]
command = ["printf", "%s|", "{text}"]
params = { text = { type = "string", default = "" } }
[job.variable]
command = 'printf "%s|" "$FARMHAND_PARAM_TEXT" "${LD_PRELOAD:-none}" "${IFS:+ifs}"'
params = { text = { type = "string", default = "" } }
"#;

async fn submit(farm: &Farm, job: &str, params: &Value) -> Result<i64, String> {
    let row = farm
        .sql
        .query_one("SELECT farmhand.submit($1, $2)", &[&job, params])
        .await;
    row.map(|row| row.get(0))
        .map_err(|e| e.as_db_error().map_or(e.to_string(), |e| e.message().to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_is_one_word_whatever_stands_in_it() {
    let farm = Farm::new().ttl(CALM).jobs(JOBS).start().await;
    let pwned = farm.dir().join("pwned");
    let touch = format!("touch {}", pwned.display());
    for text in [
        format!("; {touch}"),
        format!("$({touch})"),
        format!("`{touch}`"),
        format!("' ; {touch} ; '"),
        format!("\" && {touch} && \""),
        format!("a\n{touch}\n"),
        "--version".to_owned(),
        "-e".to_owned(),
        "%n%s".to_owned(),
        "{text}".to_owned(),
        "*".to_owned(),
        "\u{1b}]0;title\u{7}".to_owned(),
        String::new(),
    ] {
        for (job, rest) in [("argument", ""), ("variable", "none|ifs|")] {
            let run = submit(&farm, job, &json!({"text": text})).await.expect("a run");
            farm.succeeds(run).await;
            assert_eq!(farm.output(run, 1).await, format!("{text}|{rest}"));
        }
    }
    assert!(!pwned.exists());
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_program_could_be_given_and_what_was_never_asked_for_is_refused() {
    let farm = Farm::new().ttl(CALM).jobs(JOBS).start().await;
    for (params, why) in [
        (json!({"text": "x", "LD_PRELOAD": "/tmp/evil.so"}), "LD_PRELOAD"),
        (json!({"text": "x", "text2": "y"}), "text2"),
        (json!({"text": ["a", "b"]}), "text"),
        (json!({"text": {"a": 1}}), "text"),
        (json!("text"), ""),
    ] {
        let refused = submit(&farm, "argument", &params)
            .await
            .expect_err("it is refused");
        assert!(refused.contains(why), "{params}: {refused}");
    }
    // jsonb has no NUL.
    let nul = farm
        .sql
        .batch_execute(r#"SELECT farmhand.submit('argument', '{"text": "a\u0000b"}')"#)
        .await;
    assert!(nul.is_err());
    // A command has no more room than the kernel gives it.
    let large = submit(&farm, "argument", &json!({"text": "x".repeat(3 << 20)})).await;
    let refused = large.expect_err("it is refused");
    assert!(
        refused.contains("must be of type string") && refused.len() < 1000,
        "{refused}"
    );
    let most = submit(&farm, "argument", &json!({"text": "x".repeat(65_536)}))
        .await
        .expect("a run");
    farm.succeeds(most).await;
    let run = submit(&farm, "argument", &json!({"text": "y"}))
        .await
        .expect("a run");
    farm.succeeds(run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_together_are_too_large_for_any_node_fail_their_run_once() {
    let names: Vec<String> = (0..30).map(|n| format!("p{n}")).collect();
    let declared: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{name} = {{ type = "string", default = "" }}"#))
        .collect();
    let job = format!(
        "[job.many]\ncommand = ['true']\nparams = {{ {} }}\n",
        declared.join(", ")
    );
    let farm = Farm::new().ttl(CALM).jobs(&job).start().await;
    // Each alone is allowed; written down for the warden, a control character takes six bytes.
    let each = Value::from("\u{1}".repeat(65_536));
    let given: serde_json::Map<String, Value> = names.into_iter().map(|name| (name, each.clone())).collect();
    let large = submit(&farm, "many", &Value::Object(given)).await.expect("a run");
    let run = farm.over(large, SOON).await;
    assert_eq!((run.state.as_str(), run.attempt), ("failed", 1), "{run:?}");
    let why = run.reason.unwrap_or_default();
    assert!(why.contains("put what is large into a file or a table"), "{why}");
    let small = submit(&farm, "many", &json!({})).await.expect("a run");
    farm.succeeds(small).await;
    farm.check().await;
}
