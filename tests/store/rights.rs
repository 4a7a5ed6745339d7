//! Who may do what: nobody without a role anything, and no role what only the owner may.

use farmhand_store::survey;
use farmhand_tests::pg::Client;
use farmhand_tests::pg::TestDb;

const ROLES: [&str; 5] = ["agent", "submitter", "operator", "viewer", "rows"];

async fn names(client: &Client, sql: &str) -> Vec<String> {
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|r| r.get(0)).collect()
}

#[tokio::test]
async fn who_is_a_member_of_no_role_has_no_right_at_all() {
    let test = TestDb::new().await;
    let admin = test.admin().await;
    admin.exec(
        "DO $$ BEGIN CREATE ROLE fh_nobody; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    ).await;
    let open: i64 = admin
        .value(
            "SELECT (SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'farmhand'::regnamespace
                     AND c.relkind IN ('r', 'p', 'v', 'm') AND (has_table_privilege('fh_nobody', c.oid,
                         'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
                         OR has_any_column_privilege('fh_nobody', c.oid, 'SELECT, INSERT, UPDATE, REFERENCES')))
                 + (SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'farmhand'::regnamespace
                     AND CASE c.relkind WHEN 'S' THEN
                         has_sequence_privilege('fh_nobody', c.oid, 'USAGE, SELECT, UPDATE') END)
                 + (SELECT count(*) FROM pg_proc p WHERE p.pronamespace = 'farmhand'::regnamespace
                     AND has_function_privilege('fh_nobody', p.oid, 'EXECUTE'))
                 + has_schema_privilege('fh_nobody', 'farmhand', 'USAGE, CREATE')::int").await;
    assert_eq!(open, 0);
}

#[tokio::test]
async fn no_role_but_the_owner_may_define_anything() {
    let test = TestDb::new().await;
    let admin = test.admin().await;
    for role in ROLES {
        let rows = admin
            .query(
                "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'farmhand'::regnamespace
                 AND c.relkind IN ('r', 'p', 'v', 'm') AND has_table_privilege($1, c.oid, 'TRUNCATE, REFERENCES, TRIGGER')",
                &[&format!("farmhand_{role}")],
            )
            .await
            .unwrap();
        assert!(rows.is_empty(), "{role}: {rows:?}");
        let creates: bool = admin
            .query_one(
                "SELECT has_schema_privilege($1, 'farmhand', 'CREATE')",
                &[&format!("farmhand_{role}")],
            )
            .await
            .unwrap()
            .get(0);
        assert!(!creates, "{role}");
    }
}

#[tokio::test]
async fn every_function_says_where_it_looks_for_names() {
    let test = TestDb::new().await;
    let admin = test.admin().await;
    let loose = survey::rights(&test.db().await).await.unwrap().loose_functions;
    assert!(
        loose.is_empty(),
        "SET search_path = pg_catalog, pg_temp is missing: {loose:?}"
    );
    let definers = names(
        &admin,
        "SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'farmhand'::regnamespace AND p.prosecdef
         ORDER BY 1",
    )
    .await;
    let known = "be_alone begin_session count_epoch count_one drop_partitions \
        end_rows end_session ensure_partitions forget_audit free_lease hold_token keep_places \
        known_credential make_row_runs \
        raise_sequences release renew row_room row_writes submit submit_run trim_history \
        try_acquire waits_for";
    assert_eq!(definers.join(" "), known);
}
