//! Servers that deny some of PostgreSQL's functions, or answer them with an error, as services do.

use farmhand_store::protocol::claim;
use farmhand_store::{migrate, survey};
use farmhand_tests::pg::TestDb;
use farmhand_tests::pg::services::AURORA;

use crate::fixture::Farm;

/// A farm that is migrated on a server with these changes.
async fn on(change: &str) -> Farm {
    let test = TestDb::empty().await;
    test.admin().await.exec(change).await;
    migrate::migrate(&test.config()).await.unwrap();
    let (db, owner, sql) = (test.agent_db().await, test.db().await, test.client().await);
    Farm { test, db, owner, sql }
}

async fn claims_and_is_surveyed(farm: &Farm) {
    let server = farm.text("SELECT farmhand.server()").await.unwrap();
    assert!(server.contains(" -."), "no timeline: {server}");
    let cluster = farm.text("SELECT farmhand.system_id()::text").await;
    assert_eq!(cluster, None);
    let me = farm.node("a").await;
    farm.due_runs("j", 1).await;
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap().len(), 1);
    let told = survey::server(&farm.db).await.unwrap();
    assert_eq!(told.standby_lag_bytes, None);
}

#[tokio::test]
async fn a_server_that_refuses_its_write_position_and_its_identifier_is_used_without_them() {
    claims_and_is_surveyed(&on(AURORA).await).await;
}

#[tokio::test]
async fn a_server_that_denies_its_write_position_and_its_identifier_is_used_without_them() {
    let denied = "REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn(), pg_walfile_name(pg_lsn), pg_control_system() FROM PUBLIC";
    claims_and_is_surveyed(&on(denied).await).await;
}
