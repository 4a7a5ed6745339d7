//! Whoever has an agent's login cannot add an argument to a job.

use farmhand_tests::farm::Farm;
use farmhand_tests::pg::Client;
use farmhand_tests::pg::connect;

use crate::signatures::{farm, refused, signed};

const JOB: &str = "[job.a]\ncommand = ['echo', 'signed']\n[job.b]\nflow = '/srv/flow'\n";

async fn with_key(client: &Client, job: &str) -> Result<i64, tokio_postgres::Error> {
    let sql = "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, key)
               SELECT job_id, rev, 'submitted', now(), now(), '--evil' FROM farmhand.job WHERE job_id = $1
               RETURNING run_id";
    client.query_one(sql, &[&job]).await.map(|row| row.get(0))
}

/// Past every trigger, as nobody but the database's superuser can.
async fn forced(farm: &Farm, job: &str) -> i64 {
    let rogue = farm.database.admin().await;
    let replica = "SET session_replication_role = replica";
    rogue.exec(replica).await;
    with_key(&rogue, job).await.expect("a run")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rows_key_becomes_an_argument_of_no_job_but_a_table_job() {
    let farm = farm(1, 1).await;
    signed(&farm, JOB);
    let agent = connect(&farm.database.agent_url()).await;
    for job in ["a", "b"] {
        let error = with_key(&agent, job).await.expect_err("an agent's login");
        let said = error.as_db_error().expect("the database's word").message();
        assert!(said.contains("not of a table job"), "{said}");
    }
    // A run that has none gets none later.
    farm.ok(&["node", "cordon", "n1"]);
    let waits = farm.submit("a").await;
    let later = "UPDATE farmhand.run_live SET key = '--evil'";
    agent.batch_execute(later).await.expect_err("an agent's login");
    farm.ok(&["node", "resume", "n1"]);
    farm.succeeds(waits).await;
    // A database that lets it pass changes nothing: the node refuses, with a reason, and the slot is free again.
    for job in ["a", "b", "a"] {
        let run = forced(&farm, job).await;
        refused(&farm, run, "not a table job").await;
    }
    let last = farm.submit("a").await;
    farm.succeeds(last).await;
    assert_eq!(farm.output(last, 1).await, "signed\n");
    farm.check().await;
}
