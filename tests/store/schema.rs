use std::path::{Path, PathBuf};

use farmhand_store::migrate::{
    MIGRATIONS, Migration, applied, check, current_version, migrate, migrate_with,
};
use farmhand_store::partitions::{AHEAD, ensure_partitions, list};
use farmhand_store::{Db, StoreError};
use farmhand_tests::next;
use farmhand_tests::pg::Client;
use farmhand_tests::pg::TestDb;

use crate::fixture::{Farm, spec, success};

#[tokio::test]
async fn an_empty_database_is_told_apart_and_migrated_once() {
    let test = TestDb::empty().await;
    assert!(matches!(
        Db::connect(&test.config()).await,
        Err(StoreError::SchemaMissing)
    ));
    let first = migrate(&test.config()).await.unwrap();
    assert_eq!(first.len(), MIGRATIONS.len());
    assert!(migrate(&test.config()).await.unwrap().is_empty());
    Db::connect(&test.config()).await.unwrap();
}

#[tokio::test]
async fn a_database_of_another_encoding_than_utf8_is_refused_with_how_to_make_one() {
    let test = TestDb::empty().await;
    let admin = test.admin().await;
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let name = format!("{}_{}", test.name(), encoding.to_lowercase());
        let create =
            format!("CREATE DATABASE {name} OWNER farm ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0");
        admin.exec(&create).await;
        let url = test.url().replace(test.name(), &name);
        let told = migrate(&farmhand_tests::pg::config(&url)).await;
        admin.exec(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
        let Err(StoreError::NotReady { why, fix }) = told else {
            panic!("{encoding}: {told:?}");
        };
        assert!(why.contains(encoding), "{why}");
        assert!(
            fix.contains("ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0"),
            "{fix}"
        );
    }
}

#[tokio::test]
async fn migrations_at_once_wait_for_each_other() {
    let test = TestDb::empty().await;
    let tries = (0..4).map(|_| {
        let config = test.config();
        tokio::spawn(async move { migrate(&config).await.unwrap().len() })
    });
    let mut steps = 0;
    for t in tries.collect::<Vec<_>>() {
        steps += t.await.unwrap();
    }
    assert_eq!(steps, MIGRATIONS.len());
}

#[tokio::test]
async fn a_changed_migration_is_refused() {
    let farm = Farm::new().await;
    farm.exec("UPDATE farmhand.schema_version SET checksum = 'other' WHERE version = 1")
        .await;
    let error = check(&farm.db).await.unwrap_err();
    assert!(
        matches!(error, StoreError::MigrationChanged { version: 1, .. }),
        "{error}"
    );
    assert!(migrate(&farm.test.config()).await.is_err());
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_numbers() {
    let farm = Farm::new().await;
    farm.exec("INSERT INTO farmhand.schema_version (version, name, checksum) VALUES (999, 'future', 'x')")
        .await;
    let error = Db::connect(&farm.test.config()).await.err().unwrap();
    let binary = current_version();
    assert!(
        matches!(error, StoreError::SchemaTooNew { db: 999, binary: b } if b == binary),
        "{error}"
    );
    assert!(matches!(
        migrate(&farm.test.config()).await,
        Err(StoreError::SchemaTooNew { .. })
    ));
}

#[tokio::test]
async fn an_older_schema_is_refused_by_connect_and_upgraded_by_migrate() {
    let farm = Farm::new().await;
    let done = migrate_with(&farm.test.config(), &next::steps()).await.unwrap();
    assert_eq!(done.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["next"]);
    // To the binary that lacks the step, the schema is now too new.
    assert!(matches!(
        check(&farm.db).await,
        Err(StoreError::SchemaTooNew { .. })
    ));
}

/// Agents of this release go on when a later one's step has given their tables another column: each of its statements can still
/// be planned, and with it the functions that become a part of its plan.
#[tokio::test]
async fn every_statement_can_be_planned_on_a_schema_whose_tables_have_another_column() {
    let farm = Farm::new().await;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/store/src/sql");
    let mut statements: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        // Of migrations, and not of one statement each.
        .filter(|file| !["migrate_", "roles_"].iter().any(|of| name(file).starts_with(of)))
        .collect();
    statements.sort();
    let sql = &farm.sql;
    sql.exec("SET plan_cache_mode = force_generic_plan").await;
    let (mut before, mut planned) = (Vec::new(), 0);
    for file in &statements {
        before.push(plan(sql, file).await);
        planned += usize::from(before.last().unwrap().is_ok());
    }
    // Of the others a parameter's type cannot be told from the text alone.
    assert!(planned > 180, "{planned} of {}", statements.len());
    migrate_with(&farm.test.config(), &next::steps()).await.unwrap();
    for (file, before) in statements.iter().zip(before) {
        assert_eq!(plan(sql, file).await, before, "{}", name(file));
    }
}

fn name(file: &Path) -> &str {
    file.file_name().unwrap().to_str().unwrap()
}

/// Whether it can be planned; or why not.
async fn plan(sql: &Client, file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).unwrap();
    let told = |error: tokio_postgres::Error| error.as_db_error().unwrap().message().to_owned();
    sql.exec("DEALLOCATE ALL").await;
    sql.batch_execute(&format!("PREPARE asked AS {text}"))
        .await
        .map_err(told)?;
    let parameters = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'asked'";
    let count: i32 = sql.value(parameters).await;
    let nulls = vec!["NULL"; usize::try_from(count).unwrap()].join(", ");
    let given = if nulls.is_empty() {
        nulls
    } else {
        format!("({nulls})")
    };
    sql.batch_execute(&format!("EXPLAIN EXECUTE asked{given}"))
        .await
        .map_err(told)
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_behind() {
    let farm = Farm::new().await;
    let mut steps = MIGRATIONS.to_vec();
    steps.push(Migration {
        version: current_version() + 1,
        name: "broken",
        sql: "CREATE TABLE farmhand.half (id int); SELECT 1 / 0",
    });
    let error = migrate_with(&farm.test.config(), &steps).await.unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
    farm.says("SELECT to_regclass('farmhand.half')::text", None).await;
    assert_eq!(applied(&farm.db).await.unwrap().len(), MIGRATIONS.len());
}

#[tokio::test]
async fn history_has_partitions_ahead_and_a_default_partition() {
    let farm = Farm::new().await;
    let all = list(&farm.db).await.unwrap();
    for parent in ["run_history", "attempt", "run_log", "event"] {
        let own = all.iter().filter(|p| p.parent == parent);
        assert_eq!(
            own.clone().filter(|p| p.until.is_some()).count(),
            usize::try_from(AHEAD + 1).unwrap()
        );
        assert_eq!(own.filter(|p| p.until.is_none()).count(), 1);
    }
    assert!(ensure_partitions(&farm.db, AHEAD).await.unwrap().is_empty());
    assert_eq!(ensure_partitions(&farm.db, AHEAD + 1).await.unwrap().len(), 4);
}

#[tokio::test]
async fn partitions_made_at_once_are_made_once() {
    let farm = Farm::new().await;
    let tries = (0..6).map(|_| {
        let db = farm.db.clone();
        tokio::spawn(async move { ensure_partitions(&db, AHEAD + 3).await.unwrap().len() })
    });
    let mut made = 0;
    for t in tries.collect::<Vec<_>>() {
        made += t.await.unwrap();
    }
    assert_eq!(made, 12);
}

#[tokio::test]
async fn rows_beyond_the_last_partition_go_to_the_default_one_and_do_not_stop_new_ones() {
    let farm = Farm::new().await;
    farm.exec(
        "INSERT INTO farmhand.event (at, kind, severity) VALUES (now() + interval '70 days', 'late', 'info')",
    )
    .await;
    let net = list(&farm.db)
        .await
        .unwrap()
        .into_iter()
        .find(|p| p.name == "event_default")
        .unwrap();
    assert!(net.default_has_rows);
    let made = ensure_partitions(&farm.db, 12).await.unwrap();
    assert!(made.iter().any(|p| p.starts_with("run_history_")));
    farm.is("SELECT count(*) FROM farmhand.event", 1).await;
}

#[tokio::test]
async fn a_long_reader_delays_new_partitions_and_no_run() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let reader = farm.test.client().await;
    reader.exec("BEGIN; SELECT 1 FROM farmhand.run_history").await;
    assert!(
        !ensure_partitions(&farm.db, AHEAD + 1)
            .await
            .unwrap()
            .iter()
            .any(|p| p.starts_with("run_history"))
    );
    farmhand_store::protocol::finish(&farm.db, &[success(&me, &run)])
        .await
        .unwrap();
    reader.exec("COMMIT").await;
    let made = ensure_partitions(&farm.db, AHEAD + 1).await.unwrap();
    assert!(made.iter().any(|p| p.starts_with("run_history")), "{made:?}");
}

#[tokio::test]
async fn a_publication_of_all_tables_lets_deletes_and_updates_through() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let admin = farm.test.admin().await;
    admin.exec("CREATE PUBLICATION everything FOR ALL TABLES").await;
    // PostgreSQL refuses both on a published table without a replica identity, whether rows match or not.
    let tables = admin
        .query(
            "SELECT c.oid::regclass::text, a.attname::text
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = 1
            WHERE c.relnamespace = 'farmhand'::regnamespace AND c.relkind = 'r'",
            &[],
        )
        .await
        .unwrap();
    assert!(tables.len() > 40, "{}", tables.len());
    for row in tables {
        let (table, column): (String, String) = (row.get(0), row.get(1));
        for change in [
            format!("DELETE FROM {table} WHERE {column} IS NULL"),
            format!("UPDATE {table} SET \"{column}\" = NULL WHERE {column} IS NULL"),
        ] {
            if let Err(error) = admin.batch_execute(&change).await {
                let code = error.code().map(|c| c.code().to_owned());
                // The first column of a few tables may not be set at all.
                assert_eq!(code.as_deref(), Some("428C9"), "{change}: {error:?}");
            }
        }
    }
    farmhand_store::protocol::finish(&farm.db, &[success(&me, &run)])
        .await
        .unwrap();
    farm.is("SELECT count(*) FROM farmhand.run_history", 1).await;
}

/// Each column is written by every claim, each index by every claim and end.
#[tokio::test]
async fn the_row_of_a_live_run_stays_lean() {
    let farm = Farm::new().await;
    let columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'farmhand.run_live'::regclass AND attnum > 0 AND NOT attisdropped";
    assert!(farm.i64(columns).await <= 31);
    let indexes = "SELECT count(*) FROM pg_index WHERE indrelid = 'farmhand.run_live'::regclass";
    assert!(farm.i64(indexes).await <= 7);
}
