//! The days of a job: by the API, and on its page.

use super::fixture::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn the_days_of_a_job_are_the_same_by_the_api_and_on_its_page() {
    let f = Fixture::new().await;
    let token = f.token("reader", "viewer", "1h");
    f.farm.ok(&["job", "run", "done", "--wait"]);
    let reply = f.get(&token, "/api/v1/jobs/done/days?days=7").await.json();
    let days = reply["days"].as_array().expect("a list");
    assert_eq!((days.len(), reply["timezone"].as_str()), (7, Some("UTC")));
    // A test that runs over midnight has its run on the day before the last one.
    let day = (days.iter()).find(|day| day["succeeded"] == 1).expect("the run");
    assert_eq!(day["worst"], "succeeded");
    let of = (&reply["rates"][0]["succeeded"], &reply["rates"][0]["permille"]);
    assert_eq!((of.0.as_i64(), of.1.as_i64()), (Some(1), Some(1_000)));
    let (since, until) = (
        day["since"].as_str().expect("an instant"),
        day["until"].as_str().expect("an instant"),
    );
    let listed = f
        .get(
            &token,
            &format!("/api/v1/runs?job=done&since={since}&until={until}"),
        )
        .await
        .json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");

    let page = f.get(&token, "/jobs/done").await.body;
    let date = day["day"].as_str().expect("a date");
    assert!(
        page.contains(&format!("{date}: 1 succeeded")),
        "the cell of {date} in {page}"
    );
    assert!(
        page.contains(&format!("/runs?job=done&amp;since={date}&amp;until=")),
        "its link"
    );

    f.get(&token, "/api/v1/jobs/nothing/days").await.problem(404);
    f.get(&token, "/api/v1/jobs/done/days?days=91").await.problem(400);
    let reply = f
        .get(&token, "/runs?job=done&since=2026-03-29&zone=Nowhere/Else")
        .await;
    assert!(
        reply.status == 400 && reply.body.contains("not a known time zone"),
        "{reply:?}"
    );
    let reply = f
        .get(&token, "/runs?job=done&since=2026-03-29&zone=Europe/Berlin")
        .await;
    assert_eq!(reply.status, 200);
}

/// Its statement alone reads that far back.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_days_cannot_be_read_shows_all_else() {
    let f = Fixture::new().await;
    let token = f.token("reader", "viewer", "1h");
    // An instant that nothing can be added to, behind more runs than any other part of the page looks at.
    let sql = "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, ended_by,
             attempt, retries, takeovers, params, created_at, started_at, finished_at, first_due, last_due)
         SELECT nextval('farmhand.run_id_seq'), 'done', 1, 'submitted', 0, 1, now(),
             CASE n WHEN 1 THEN '294276-12-31 23:59:59+00' ELSE now() END, 'succeeded', 'holder', 1, 0, 0, '{}', now(), now(), now(), now(), now() FROM generate_series(1, 500) n";
    f.farm.exec(sql).await;
    let reply = f.get(&token, "/jobs/done").await;
    assert_eq!(reply.status, 200);
    for told in [
        "These days could not be read",
        "How its runs went",
        "Why it does or does not run",
    ] {
        assert!(reply.body.contains(told), "{told} in {}", reply.body);
    }
    assert_ne!(f.get(&token, "/api/v1/jobs/done/days").await.status, 200);
}

#[tokio::test]
async fn the_page_of_a_job_that_only_a_newer_version_can_read_has_all_else() {
    let f = Fixture::new().await;
    let token = f.token("look", "viewer", "1h");
    let newer = "UPDATE farmhand.job_revision SET spec = jsonb_set(spec, '{overlap}', '\"later\"') WHERE job_id = 'daily'";
    f.farm.exec(newer).await;
    let page = f.get(&token, "/jobs/daily").await;
    assert!(
        page.status == 200 && page.body.contains("newer version") && page.body.contains("job-explain"),
        "{page:?}"
    );
}
