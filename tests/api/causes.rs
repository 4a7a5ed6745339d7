//! Causes that callers say are known.

use serde_json::Value;

use super::fixture::Fixture;

/// A fixture whose job `daily` fails.
async fn failing() -> Fixture {
    let f = Fixture::new().await;
    let failed = "INSERT INTO farmhand.job_stat (job_id, consecutive_failures) VALUES ('daily', 3)";
    f.farm.sql.batch_execute(failed).await.expect("a failure");
    f
}

const PATH: &str = "/api/v1/causes/failing%3Adaily";

#[tokio::test]
async fn a_cause_is_acknowledged_and_taken_back_with_a_preview_of_both() {
    let f = failing().await;
    let token = f.token("ann", "operator", "1h");
    let farm = async || f.get(&token, "/api/v1/farm").await.json();
    let before = farm().await;
    assert_eq!(before["level"], "attention");
    assert_eq!(
        before["findings"][0]["causes"],
        serde_json::json!(["failing:daily"])
    );

    let ack = format!("{PATH}/acknowledge?for=2h&note=disk%20ordered");
    let preview = f.post(&token, &format!("{ack}&preview=true"), "").await.json();
    assert_eq!(preview["applied"], false);
    assert_eq!(
        preview["cli"],
        "farmhand ack failing:daily --for=2h '--note=disk ordered'"
    );
    assert_eq!(farm().await["level"], "attention");
    let done = f.post(&token, &ack, "").await.json();
    assert_eq!(done["applied"], true);
    let what = done["what"].as_str().expect("a sentence");
    assert!(what.starts_with("failing:daily does not lead until "), "{what}");
    let after = farm().await;
    assert_eq!(after["level"], "well");
    let known: &Value = &after["findings"][0]["acknowledged"];
    assert_eq!(
        (&known["by"], &known["note"]),
        (&"api:ann@127.0.0.1".into(), &"disk ordered".into())
    );
    assert_eq!(&after["acknowledged"]["failing:daily"], known);
    // The list of what fails is as long as before.
    assert_eq!(after["failing"], before["failing"]);

    let back = format!("{PATH}/unacknowledge");
    let preview = f.post(&token, &format!("{back}?preview=true"), "").await.json();
    assert_eq!(preview["cli"], "farmhand ack --remove failing:daily");
    assert_eq!(farm().await["level"], "well");
    f.post(&token, &back, "").await.json();
    assert_eq!(farm().await["level"], "attention");
    f.post(&token, &back, "").await.problem(404);
}

#[tokio::test]
async fn what_is_no_cause_and_who_may_not_is_refused() {
    let f = failing().await;
    let token = f.token("ann", "operator", "1h");
    for (path, status) in [
        ("/api/v1/causes/failing/acknowledge", 400),
        ("/api/v1/causes/broken%3Adaily/acknowledge", 400),
        ("/api/v1/causes/failing%3Adone/acknowledge", 404),
        ("/api/v1/causes/stuck%3Ax/acknowledge", 404),
        ("/api/v1/causes/failing%3Adaily/acknowledge?for=soon", 400),
        ("/api/v1/causes/failing%3Adaily/acknowledge?for=0s", 400),
        ("/api/v1/causes/failing%3Adaily/acknowledge?for=31d", 400),
        ("/api/v1/causes/failing%3Adaily/acknowledge?note=a%0Ab", 400),
        ("/api/v1/causes/broken%3Adaily/unacknowledge", 400),
        ("/api/v1/causes/failing%3Adaily/unacknowledge", 404),
    ] {
        f.post(&token, path, "").await.problem(status);
    }
    let viewer = f.token("eve", "viewer", "1h");
    f.post(&viewer, &format!("{PATH}/acknowledge"), "")
        .await
        .problem(403);
    let kept = "SELECT count(*) FROM farmhand.acknowledgement";
    let kept: i64 = f.farm.sql.query_one(kept, &[]).await.expect("a count").get(0);
    assert_eq!(kept, 0);
}
