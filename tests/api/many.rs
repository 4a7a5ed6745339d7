//! Many runs are cancelled and run again by one request.

use serde_json::{Value, json};

use super::client::send;
use super::fixture::Fixture;

/// Runs of `job` that nobody can start, and ended ones.
async fn made(f: &Fixture, job: &str, due: i64, failed: i64) {
    let sql = format!(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, instance, due_at, ready_at)
         SELECT '{job}', 1, 'submitted', 0, now(), 'infinity' FROM generate_series(1, {due});
         INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, ended_by,
             running_at, session, fence, attempt, retries, takeovers, params, created_at, claimed_at, finished_at, first_due, last_due)
         SELECT nextval('farmhand.run_id_seq'), '{job}', 1, 'submitted', 0, 1, now(), now(), 'failed', 'holder', 'n1', 1, 1, 1, 0, 0,
             '{{}}', now(), now(), now() - interval '1 hour', now(), now() FROM generate_series(1, {failed})"
    );
    f.farm.exec(&sql).await;
}

async fn counted(f: &Fixture, state: &str) -> i64 {
    let sql = "SELECT count(*) FROM farmhand.run WHERE state = $1";
    f.farm
        .sql
        .query_one(sql, &[&state])
        .await
        .expect("a count")
        .get(0)
}

#[tokio::test]
async fn runs_are_cancelled_by_what_they_have_in_common_and_previewed_first() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "long", 200, 1).await;
    made(&f, "done", 3, 0).await;
    let choice = json!({"job": "long"}).to_string();
    let preview = f
        .post(&token, "/api/v1/runs/cancel?preview=true", &choice)
        .await
        .json();
    assert!(
        preview["what"]
            .as_str()
            .unwrap()
            .starts_with("200 runs of long end"),
        "{preview}"
    );
    assert_eq!(
        (&preview["applied"], counted(&f, "due").await),
        (&json!(false), 203)
    );
    let done = f.post(&token, "/api/v1/runs/cancel", &choice).await.json();
    assert_eq!(done["runs"].as_array().map(Vec::len), Some(200), "{done}");
    assert_eq!(
        (counted(&f, "cancelled").await, counted(&f, "due").await),
        (200, 3)
    );
    assert_eq!(done["cli"], "farmhand run cancel --job=long --yes");
    // One event and one entry of the audit, whoever was cancelled; each run says by whom.
    let one = [
        "SELECT count(*) FROM farmhand.event WHERE kind LIKE 'cancel%'",
        "SELECT count(*) FROM farmhand.audit WHERE action LIKE 'cancel%'",
        "SELECT count(DISTINCT cancel_by) FROM farmhand.run_history WHERE state = 'cancelled'",
    ];
    for sql in one {
        assert_eq!(f.farm.value::<i64>(sql).await, 1, "{sql}");
    }
    let told = "SELECT detail FROM farmhand.event WHERE kind = 'cancel_many' AND job_id = 'long'";
    let told: Value = f.farm.sql.value(told).await;
    assert_eq!(
        (&told["runs"], &told["chosen"]),
        (&json!(200), &json!("--job=long")),
        "{told}"
    );
    assert!(told["by"].as_str().unwrap().starts_with("api:ops@"), "{told}");
    let run = done["runs"][0].as_i64().expect("a number");
    let shown = f.get(&token, &format!("/api/v1/runs/{run}")).await.json();
    assert_eq!(shown["cancel_by"], told["by"]);

    // Nothing is chosen, what has ended, what does not exist, and what the role does not allow.
    f.post(&token, "/api/v1/runs/cancel", "{}").await.problem(400);
    f.post(
        &token,
        "/api/v1/runs/cancel",
        &json!({"state": ["failed"]}).to_string(),
    )
    .await
    .problem(400);
    f.post(
        &token,
        "/api/v1/runs/cancel",
        &json!({"runs": [999_999]}).to_string(),
    )
    .await
    .problem(404);
    f.post(&token, "/api/v1/runs/cancel", &json!({"job": "nix"}).to_string())
        .await
        .problem(404);
    f.post(
        &token,
        "/api/v1/runs/cancel",
        &json!({"jobs": "long"}).to_string(),
    )
    .await
    .problem(400);
    let submitter = f.token("script", "submitter", "1h");
    f.post(&submitter, "/api/v1/runs/cancel", &choice)
        .await
        .problem(403);
    assert_eq!(counted(&f, "due").await, 3);
}

#[tokio::test]
async fn runs_are_run_again_once_and_those_named_that_have_not_ended_are_counted() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "done", 1, 4).await;
    let choice = json!({"state": ["failed"], "since": "2020-01-01T00:00:00Z", "all": true}).to_string();
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "night"),
    ];
    let path = "/api/v1/runs/retry";
    let again = send(f.port, "POST", path, &headers, &choice).await.json();
    assert_eq!(again["runs"].as_array().map(Vec::len), Some(4), "{again}");
    let told = "SELECT string_agg(kind, ' ') FROM farmhand.event WHERE kind LIKE 'retry%'";
    assert_eq!(
        f.farm.value::<Option<String>>(told).await.as_deref(),
        Some("retry_many")
    );
    // With the same key the same runs, without it none a second time.
    let repeated = send(f.port, "POST", path, &headers, &choice).await.json();
    assert_eq!(repeated["runs"], again["runs"]);
    // Also when what it made matches the choice itself.
    let new = again["runs"][0].as_i64().expect("a number");
    super::actions::until(&f, new, "succeeded").await;
    let more =
        json!({"state": ["failed", "succeeded"], "since": "2020-01-01T00:00:00Z", "all": true}).to_string();
    let repeated = send(f.port, "POST", path, &headers, &more).await.json();
    assert_eq!(repeated["runs"], again["runs"]);
    for question in ["", "?preview=true"] {
        let ended = format!("/api/v1/runs/{new}/cancel{question}");
        let refused = f.post(&token, &ended, r#"{"firing": true}"#).await.problem(409);
        assert_eq!(
            refused["title"],
            format!("run {new} has already ended: succeeded")
        );
    }
    let none = f.post(&token, path, &choice).await.json();
    let said = "no run matches; there is nothing to do; 4 runs were run again already and are left out";
    assert_eq!((&none["runs"], &none["what"]), (&json!([]), &json!(said)));
    let failed = "SELECT max(run_id) FROM farmhand.run WHERE state = 'failed'";
    let failed: i64 = f.farm.sql.value(failed).await;
    let twice = json!({"runs": [failed, failed]}).to_string();
    let once = f.post(&token, "/api/v1/runs/retry", &twice).await.json();
    assert_eq!(
        once["runs"].as_array().map(Vec::len),
        Some(1),
        "a run that is named twice: {once}"
    );
    let sql = "SELECT run_id FROM farmhand.run WHERE state = 'due' AND ready_at = 'infinity'";
    let waits: i64 = f.farm.sql.value(sql).await;
    let named = json!({"runs": [waits]}).to_string();
    let refused: Value = f.post(&token, "/api/v1/runs/retry", &named).await.json();
    assert_eq!(
        (&refused["runs"], &refused["what"]),
        (&json!([]), &json!("no run matches; there is nothing to do"))
    );
}

#[tokio::test]
async fn an_error_in_the_middle_says_how_many_were_done() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "long", 1_100, 0).await;
    // The newest are first, a thousand at once: the database fails in the second set.
    let sql = "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$;
        DO $$ BEGIN EXECUTE format('CREATE TRIGGER fail BEFORE DELETE ON farmhand.run_live FOR EACH ROW
            WHEN (OLD.run_id = %s) EXECUTE FUNCTION public.fail()',
            (SELECT run_id FROM farmhand.run_live ORDER BY run_id DESC OFFSET 1050 LIMIT 1)); END $$";
    f.farm.exec(sql).await;
    let choice = json!({"job": "long"}).to_string();
    let problem = f.post(&token, "/api/v1/runs/cancel", &choice).await.problem(500);
    assert_eq!(
        problem["detail"],
        "1000 of 1100 runs had been cancelled; the same again cancels the rest"
    );
    assert_eq!(
        (counted(&f, "cancelled").await, counted(&f, "due").await),
        (1_000, 100)
    );
    let told = f.farm.farmhand(&["run", "cancel", "--job", "long", "--yes"]);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(said.contains("0 of 100 runs had been cancelled"), "{said}");
}

/// What was made between the question and the answer was not previewed.
#[tokio::test]
async fn a_page_cancels_only_runs_that_its_question_counted_and_none_without_a_choice() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "long", 5, 0).await;
    let bearer = format!("Bearer {token}");
    let form = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let asks = f.get(&token, "/act/cancel-runs?job=long").await;
    assert!(asks.body.contains("5 runs of long end"), "{asks:?}");
    let upto = asks
        .body
        .split_once("name=\"upto\" value=\"")
        .expect("the last run");
    let upto = upto.1.split('"').next().expect("its number").to_owned();
    made(&f, "long", 2, 0).await;
    let fields = format!("job=long&upto={upto}&sure=yes");
    let reply = send(f.port, "POST", "/act/cancel-runs", &form, &fields).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    assert_eq!((counted(&f, "cancelled").await, counted(&f, "due").await), (5, 2));
    let reply = send(f.port, "POST", "/act/cancel-runs", &form, "sure=yes").await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(counted(&f, "due").await, 2);
}

#[tokio::test]
async fn runs_are_found_and_cancelled_by_a_label_and_a_parameter() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "long", 2, 0).await;
    let labelled = "UPDATE farmhand.job SET placement = ARRAY['{\"role\": \"batch\"}'::jsonb] WHERE job_id = 'long';
        UPDATE farmhand.run_live SET params = '{\"tenant\": 7}' WHERE run_id = (SELECT max(run_id) FROM farmhand.run_live)";
    f.farm.exec(labelled).await;
    let found = async |query: &str| {
        let list = f.get(&token, &format!("/api/v1/runs?{query}")).await.json();
        list["items"].as_array().expect("a list").len()
    };
    assert_eq!(found("label=role%3Dbatch").await, 2);
    assert_eq!(found("label=role%3Dweb").await, 0);
    assert_eq!(found("param=tenant%3D7").await, 1);
    f.get(&token, "/api/v1/runs?param=tenant").await.problem(400);
    let choice = json!({"label": "role=batch", "param": "tenant=7"}).to_string();
    let done = f.post(&token, "/api/v1/runs/cancel", &choice).await.json();
    assert_eq!(done["runs"].as_array().map(Vec::len), Some(1), "{done}");
    assert_eq!(
        done["cli"],
        "farmhand run cancel --label=role=batch --param=tenant=7 --yes"
    );
    // The same on the page: what the list's buttons would do.
    let page = "/runs?label=role%3Dbatch&param=tenant%3D7";
    let text = f.get(&token, page).await.body;
    assert!(text.contains(r#"name="param" value="tenant=7""#), "{text}");
    assert_eq!(f.get(&token, "/runs?label=batch").await.status, 400);
}

#[tokio::test]
async fn a_choice_looks_through_a_bounded_number_of_runs_and_says_when_there_are_more() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    // Without what counts ends: only their number matters.
    let sql = "SET session_replication_role = replica;
        INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, ended_by,
            running_at, session, fence, attempt, retries, takeovers, params, created_at, claimed_at, finished_at, first_due, last_due)
        SELECT nextval('farmhand.run_id_seq'), 'done', 1, 'submitted', 0, 1, now(), now(), 'succeeded', 'holder', 'n1', 1, 1, 1, 0,
            0, '{}', now(), now(), now() - interval '1 hour', now(), now() FROM generate_series(1, 200001);
        RESET session_replication_role";
    let admin = f.farm.database.admin().await;
    admin.exec(sql).await;
    let path = "/api/v1/runs/retry";
    let choice = json!({"job": "done", "state": ["failed"]}).to_string();
    let problem = f.post(&token, path, &choice).await.problem(409);
    let title = problem["title"].as_str().expect("a title");
    assert!(title.contains("of the newest 200000 runs 0 match"), "{problem}");
    let lately = json!({"job": "done", "state": ["failed"], "since": jiff::Timestamp::now()}).to_string();
    let done = f.post(&token, path, &lately).await.json();
    assert!(
        done["what"].as_str().expect("what").starts_with("no run matches"),
        "{done}"
    );
}

#[tokio::test]
async fn one_request_cancels_as_many_as_it_can_and_says_that_there_are_more() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "long", 10_200, 0).await;
    let path = "/api/v1/runs/cancel";
    let choice = json!({"job": "long"}).to_string();
    let more = "; more match: the same again goes on with them";
    let asked = f
        .post(&token, &format!("{path}?preview=true"), &choice)
        .await
        .json();
    let what = asked["what"].as_str().expect("what");
    assert!(
        what.starts_with("10000 runs of long end") && what.ends_with(more),
        "{what}"
    );
    let done = f.post(&token, path, &choice).await.json();
    assert_eq!(done["what"], format!("10000 runs of long: 10000 cancelled{more}"));
    assert_eq!(done["runs"].as_array().map(Vec::len), Some(10_000));
    let rest = f.post(&token, path, &choice).await.json();
    assert_eq!(rest["what"], "200 runs of long: 200 cancelled");
    assert_eq!(
        (counted(&f, "cancelled").await, counted(&f, "due").await),
        (10_200, 0)
    );
}

#[tokio::test]
async fn a_state_that_is_named_twice_has_its_runs_once() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "done", 0, 2).await;
    let list = f.get(&token, "/api/v1/runs?state=failed,failed").await.json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2), "{list}");
    let choice = json!({"state": ["failed", "failed"], "all": true}).to_string();
    let done = f.post(&token, "/api/v1/runs/retry", &choice).await.json();
    assert_eq!(done["runs"].as_array().map(Vec::len), Some(2), "{done}");
}

#[tokio::test]
async fn the_list_of_due_runs_and_the_action_below_it_are_of_the_same_runs() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "long", 2, 0).await;
    made(&f, "done", 0, 2).await;
    let page = f.get(&token, "/runs?state=due").await.body;
    assert_eq!(page.matches("<tr id=\"run-").count(), 2, "{page}");
    assert!(page.contains(r#"<option value="due" selected>"#), "{page}");
    let bearer = format!("Bearer {token}");
    let form = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    for wrong in ["job=long&state=du&sure=yes", "state=due&jb=done&sure=yes"] {
        let reply = send(f.port, "POST", "/act/cancel-runs", &form, wrong).await;
        assert_eq!(reply.status, 400, "{wrong}: {reply:?}");
    }
    assert_eq!((counted(&f, "cancelled").await, counted(&f, "due").await), (0, 2));
}

#[tokio::test]
async fn the_page_lists_what_is_run_again_before_it_is() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    made(&f, "done", 0, 3).await;
    let newest: i64 = f.farm.value("SELECT max(run_id) FROM farmhand.run_history").await;
    let asks = f.get(&token, "/act/retry-runs?job=done&state=failed").await.body;
    for said in [
        format!("run {newest}</a> of done, failed, due 2"),
        "2 runs of earlier firings are left out".to_owned(),
        "name=\"all\"".to_owned(),
    ] {
        assert!(asks.contains(&said), "{said}: {asks}");
    }
    let all = f
        .get(&token, "/act/retry-runs?job=done&state=failed&all=yes")
        .await
        .body;
    assert!(
        all.contains("3 runs of done are run again") && all.contains("--all --yes"),
        "{all}"
    );
    let choice = json!({"job": "done"}).to_string();
    let preview = f
        .post(&token, "/api/v1/runs/retry?preview=true", &choice)
        .await
        .json();
    assert_eq!(preview["chosen"][0]["run_id"], newest, "{preview}");
    let off = "UPDATE farmhand.job SET enabled = false WHERE job_id = 'done'";
    f.farm.exec(off).await;
    for path in [
        "/api/v1/runs/retry?preview=true".to_owned(),
        "/api/v1/runs/retry".to_owned(),
    ] {
        let refused = f.post(&token, &path, &choice).await.problem(409);
        assert_eq!(refused["title"], "done is not enabled", "{path}");
    }
    let refused = f
        .post(&token, &format!("/api/v1/runs/{newest}/retry?preview=true"), "")
        .await
        .problem(409);
    assert_eq!(refused["title"], "done is not enabled");
}
