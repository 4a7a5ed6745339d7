//! Whoever has an agent's login cannot add an argument to a job.

use farmhand_tests::pg::Client;
use farmhand_tests::pg::connect;

use crate::signatures::{farm, refused, signed};

const JOB: &str = "[job.a]\ncommand = ['echo', 'signed']\n[job.b]\nflow = '/srv/flow'\n";

async fn with_key(client: &Client, job: &str) -> i64 {
    let sql = "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, key)
               SELECT job_id, rev, 'submitted', now(), now(), '--evil' FROM farmhand.job WHERE job_id = $1
               RETURNING run_id";
    client.query_one(sql, &[&job]).await.expect("a run").get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rows_key_becomes_an_argument_of_no_job_but_a_table_job() {
    let farm = farm(1, 1).await;
    signed(&farm, JOB);
    let agent = connect(&farm.database.agent_url()).await;
    // The node refuses, with a reason, and the slot is free again.
    for job in ["a", "b", "a"] {
        let run = with_key(&agent, job).await;
        refused(&farm, run, "not a table job").await;
    }
    let last = farm.submit("a").await;
    farm.succeeds(last).await;
    assert_eq!(farm.output(last, 1).await, "signed\n");
    farm.check().await;
}
