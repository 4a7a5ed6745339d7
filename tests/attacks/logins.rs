//! A database, and the logins that it is attacked with.

use farmhand_tests::pg::Client;
use farmhand_tests::pg::{TestDb, connect};
use tokio_postgres::error::SqlState;

/// A database with a job, a token of the hash `token` and the logins of an agent and an operator.
pub struct Attacked {
    pub test: TestDb,
    pub owner: Client,
    pub agent: Client,
    pub operator: Client,
}

impl Attacked {
    pub async fn new() -> Self {
        let test = TestDb::new().await;
        let owner = test.client().await;
        let (agent, operator) = (
            connect(&test.url_as("farm_agent")).await,
            connect(&test.url_as("farm_operator")).await,
        );
        owner.exec(
            "INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at)
                 VALUES ('j', 1, '{\"command\": \"true\"}', '', 'anna', now());
             INSERT INTO farmhand.job (job_id, rev, seq, enabled, scheduled, overlap, on_lost, priority, instances, each_node, source, applied_by, applied_at)
                 VALUES ('j', 1, 1, true, false, 'allow', 'rerun', 0, 1, false, '', 'anna', now());
             INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
                 VALUES ('j', 1, 'submitted', now(), now());
             INSERT INTO farmhand.api_token (name, hash, role, created_by, expires_at)
                 VALUES ('boss', sha256('token'), 'admin', 'anna', now() + interval '1 hour')"
        ).await;
        Self {
            test,
            owner,
            agent,
            operator,
        }
    }

    pub async fn text(&self, sql: &str) -> Option<String> {
        self.owner.query_one(sql, &[]).await.expect(sql).get(0)
    }
}

pub async fn refused(client: &Client, statement: &str, code: &SqlState) {
    let error = client.batch_execute(statement).await.expect_err(statement);
    assert_eq!(error.code(), Some(code), "{statement}: {error:?}");
}

pub const DENIED: &SqlState = &SqlState::INSUFFICIENT_PRIVILEGE;
pub const CHECKED: &SqlState = &SqlState::CHECK_VIOLATION;
