//! Whoever has an agent's login cannot add an argument to a job.

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::pg::connect;
use tokio_postgres::Client;

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
    rogue.batch_execute(replica).await.expect("a superuser");
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

/// Of a table's owner, who writes keys, against a job that a person signed.
#[tokio::test(flavor = "multi_thread")]
async fn a_rows_key_is_no_option_of_a_signed_command() {
    let farm = farm(1, 1).await;
    let pwned = farm.dir().join("pwned");
    farm.sql
        .batch_execute(&format!(
            "CREATE TABLE archive (k text PRIMARY KEY, d boolean, said text, kept boolean, heard text);
             INSERT INTO archive VALUES ('--checkpoint-action=exec=touch {}')",
            pwned.display()
        ))
        .await
        .expect("a table");
    let table = |dispatch: &str, message: &str| {
        format!(
            "table = {{ name = 'archive', key = 'k', dispatch = '{dispatch}', message = '{message}', poll = '200ms' }}"
        )
    };
    signed(
        &farm,
        &format!(
            "[job.tar]\ncommand = ['tar', '--checkpoint=1', '-cf', '/dev/null', '/etc/hostname']\n{}\n
             [job.safe]\ncommand = ['echo', '--', '{{key}}', 'after']\n{}\n",
            table("d", "said"),
            table("kept", "heard")
        ),
    );
    let run = farm.first_run("tar").await;
    let done = farm.over(run.run_id, SOON).await;
    let why = done.reason.unwrap_or_default();
    assert!(
        done.state == "failed" && why.contains("the row's key begins with `-`"),
        "{why}"
    );
    assert_eq!(
        farm.output(run.run_id, done.attempt).await,
        "",
        "nothing was executed"
    );
    let run = farm.first_run("safe").await;
    farm.succeeds(run.run_id).await;
    let key = format!("-- --checkpoint-action=exec=touch {} after\n", pwned.display());
    assert_eq!(farm.output(run.run_id, 1).await, key);
    assert!(!pwned.exists());
    farm.check().await;
}
