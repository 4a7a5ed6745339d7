//! What happens to who wants more than their role has.

use farmhand_store::StoreError;
use farmhand_store::jobs::{JobChange, apply, submit};
use farmhand_store::migrate::migrate_roles;
use farmhand_store::partitions::{AHEAD, drop_older_than, ensure_partitions};
use farmhand_store::protocol::{claim, finish};
use farmhand_store::retention::Retention;
use farmhand_store::tables;
use farmhand_tests::acting::anna;
use farmhand_tests::pg::Client;
use farmhand_tests::pg::{TestDb, connect};
use serde_json::json;
use tokio_postgres::error::SqlState;

use crate::fixture::{Farm, spec, success};
use crate::tables::{ORDERS, farm_with, job, look, orders, row, take, write};

async fn as_role(test: &TestDb, role: &str) -> Client {
    connect(&test.url_as(role)).await
}

#[tokio::test]
async fn what_an_agent_may_have_done_to_the_schema_and_the_history_is_bounded() {
    let farm = Farm::new().await;
    let agent = as_role(&farm.test, "farm_agent").await;
    for (statement, name) in [
        ("SELECT farmhand.drop_partitions(0, 1, 1)", "a day"),
        ("SELECT farmhand.drop_partitions(90, 90, -1)", "a day"),
        ("SELECT farmhand.trim_history(90, 0, 90, 1)", "a day"),
        ("SELECT farmhand.trim_history(90, 90, 90, 1000000)", "1 to 100000"),
        ("SELECT farmhand.ensure_partitions(100000)", "0 to 104"),
        ("SELECT farmhand.ensure_partitions(NULL)", "0 to 104"),
    ] {
        let error = agent.batch_execute(statement).await.expect_err(statement);
        let said = error.as_db_error().expect(statement).message();
        assert!(said.contains(name), "{statement}: {said}");
    }
}

#[tokio::test]
async fn an_agent_makes_and_drops_partitions_that_it_does_not_own() {
    let farm = Farm::new().await;
    assert_eq!(ensure_partitions(&farm.db, AHEAD + 1).await.unwrap().len(), 4);
    farm.exec(
        "CREATE TABLE farmhand.event_20200106 PARTITION OF farmhand.event
                 FOR VALUES FROM ('2020-01-06Z') TO ('2020-01-13Z')",
    )
    .await;
    assert_eq!(
        drop_older_than(&farm.db, Retention::default()).await.unwrap(),
        ["event_20200106"]
    );
    let owners = farm
        .i64(
            "SELECT count(DISTINCT relowner) FROM pg_class WHERE relnamespace = 'farmhand'::regnamespace
             AND relkind IN ('r', 'p')",
        )
        .await;
    assert_eq!(owners, 1);
}

/// Functions and operators that lie in wait under the names that Farmhand's functions use.
const TRAPS: &str = "
    CREATE FUNCTION public.sprung() RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'trapped as %', current_user; END $$;
    CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS
        'SELECT public.sprung()::text::timestamptz';
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
        'SELECT public.sprung()::text::timestamptz';
    CREATE FUNCTION public.jsonb_typeof(jsonb) RETURNS text LANGUAGE sql AS 'SELECT public.sprung()::text';
    CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT public.sprung()';
    CREATE FUNCTION public.unnest(text[], bigint[]) RETURNS TABLE (k text, r bigint) LANGUAGE sql AS
        'SELECT public.sprung()::text, 1::bigint';
    CREATE FUNCTION public.to_regclass(text) RETURNS regclass LANGUAGE sql AS 'SELECT public.sprung()::text::regclass';
    CREATE FUNCTION public.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE sql AS 'SELECT public.sprung()';
    CREATE FUNCTION public.quote_ident(text) RETURNS text LANGUAGE sql AS 'SELECT public.sprung()::text';
    CREATE FUNCTION public.eq(text, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT public.sprung()';
    CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = varchar, FUNCTION = public.eq);
    CREATE TABLE public.run_live (run_id bigint);";

#[tokio::test]
async fn functions_do_not_resolve_names_through_the_callers_search_path() {
    let (farm, me) = farm_with(2, 5).await;
    farm.job("j", spec(), None).await;
    farm.test.admin().await.exec(TRAPS).await;
    for role in ["farm_agent", "farm_submitter"] {
        let path = format!(
            "{}&options=-c%20search_path%3Dpublic%2Cpg_catalog",
            farm.test.url_as(role)
        );
        let caller = connect(&path).await;
        // They are traps.
        let error = caller.batch_execute("SELECT jsonb_typeof('{}'::jsonb)").await;
        let error = error.expect_err("a trap");
        assert!(
            error.as_db_error().unwrap().message().contains("trapped"),
            "{error:?}"
        );
        caller
            .exec(
                "CREATE TEMP TABLE run_live (); CREATE TEMP TABLE job (job_id text);
                 SELECT farmhand.submit('j', '{}', pg_catalog.now())",
            )
            .await;
        if role == "farm_agent" {
            let rows = caller
                .query("SELECT made, problem FROM farmhand.dispatch_rows('orders')", &[])
                .await
                .unwrap();
            assert_eq!((rows[0].get(0), rows[0].get::<_, Option<String>>(1)), (2, None));
            caller
                .exec(
                    "SELECT farmhand.ensure_partitions(7); SELECT farmhand.drop_partitions(90, 30, 30);
                     SELECT farmhand.gated_at('a'); SELECT * FROM farmhand.run;",
                )
                .await;
        }
    }
    let runs = claim(&farm.db, &me, 100, None).await.unwrap();
    assert_eq!(runs.len(), 4);
    let ends: Vec<_> = runs.iter().map(|r| success(&me, r)).collect();
    finish(&farm.db, &ends).await.unwrap();
    assert!(row(&farm, 1).await.2);
}

#[tokio::test]
async fn a_users_trigger_finds_what_it_finds_everywhere_else() {
    let farm = Farm::new().await;
    farm.exec(ORDERS).await;
    farm.exec(
        "INSERT INTO shop.orders VALUES (1);
             CREATE TABLE noted (id bigint, path text);
             CREATE FUNCTION shop.note() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN INSERT INTO noted VALUES (NEW.id, current_setting('search_path')); RETURN NEW; END $$;
             CREATE TRIGGER note BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.note();",
    )
    .await;
    farm.job("orders", job(orders(1)), None).await;
    let me = farm.node("a").await;
    assert_eq!(look(&farm).await.made, 1);
    let run = take(&farm, &me).await.remove(0);
    finish(&farm.db, &[success(&me, &run)]).await.unwrap();
    write(&farm).await;
    farm.is("SELECT count(*) FROM noted", 2).await;
    farm.is("SELECT count(*) FROM noted WHERE path = '\"$user\", public'", 2)
        .await;
}

#[tokio::test]
async fn sql_in_names_stays_a_name() {
    let farm = Farm::new().await;
    let evil = "x'; DROP SCHEMA farmhand CASCADE; --\"";
    let node = farm.node(evil).await;
    farm.job(evil, spec(), None).await;
    submit(&farm.db, evil, &json!({}), None, Some(evil))
        .await
        .unwrap();
    let run = take(&farm, &node).await.remove(0);
    finish(&farm.db, &[success(&node, &run)]).await.unwrap();
    let mut table = orders(1);
    table.schema = "shop\"; DROP SCHEMA farmhand CASCADE; --".to_owned();
    table.name = "o'; DROP SCHEMA farmhand CASCADE; --".to_owned();
    let change = JobChange {
        job_id: "t".to_owned(),
        spec: job(table.clone()),
        next_run: None,
        source: "test.toml".to_owned(),
    };
    apply(&anna(&farm.owner), &[change], false, "tester")
        .await
        .unwrap();
    let found = tables::check(&farm.owner, &table).await.unwrap();
    assert!(found[0].problem.contains("there is no table"), "{found:?}");
    let submitter = as_role(&farm.test, "farm_submitter").await;
    let error = submitter
        .execute(
            "SELECT farmhand.submit($1)",
            &[&"no'; DROP SCHEMA farmhand CASCADE; --"],
        )
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::NO_DATA_FOUND));
    for prefix in ["x\"; DROP ROLE farm; --", "Farm", ""] {
        let refused = migrate_roles(&farm.test.config(), Some(prefix)).await;
        assert!(matches!(refused, Err(StoreError::Config(_))), "{prefix}");
    }
    farm.is("SELECT count(*) FROM farmhand.run_history", 1).await;
}
