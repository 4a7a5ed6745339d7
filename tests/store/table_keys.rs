//! Table jobs whose key is of several columns.

use farmhand_core::definition::TableSpec;
use farmhand_store::protocol::finish;
use farmhand_store::tables::{check, describe, dispatch};
use serde_json::Value;

use crate::fixture::{Farm, one, success};
use crate::tables::{job, take, write};

fn of(key: &[&str]) -> TableSpec {
    TableSpec {
        name: "mixed".to_owned(),
        key: key.iter().map(|name| (*name).to_owned()).collect(),
        dispatch: "d".to_owned(),
        message: Some("said".to_owned()),
        ..TableSpec::default()
    }
}

/// A row of each of these texts, with a neighbour that has the same text or the same number.
const TEXTS: [&str; 5] = ["plain", "a\"b\\c", "ü, [1]", "{}", ""];

async fn farm() -> Farm {
    let farm = Farm::new().await;
    farm.exec(
        "CREATE TABLE mixed (\"Of\" text, n int, at date DEFAULT '2026-11-25', d bigint, said text);
             CREATE UNIQUE INDEX ON mixed (n, \"Of\");
             CREATE INDEX ON mixed (\"Of\", n) WHERE d IS NULL",
    )
    .await;
    farm
}

#[tokio::test]
async fn a_row_with_a_key_of_several_columns_is_run_once_and_only_its_end_is_written() {
    let farm = farm().await;
    for text in TEXTS {
        farm.sql
            .exec_with("INSERT INTO mixed (\"Of\", n) VALUES ($1, 1), ($1, 2)", &[&text])
            .await;
    }
    farm.job("mixed", job(of(&["Of", "n"])), None).await;
    assert_eq!(dispatch(&farm.db, "mixed").await.unwrap().made, 10);
    assert_eq!(dispatch(&farm.db, "mixed").await.unwrap().made, 0);
    let me = farm.node("a").await;
    let runs = take(&farm, &me).await;
    let parts: Vec<Value> = (runs.iter())
        .map(|run| serde_json::from_str(run.key.as_deref().unwrap()).unwrap())
        .collect();
    for text in TEXTS {
        assert!(
            parts.contains(&serde_json::json!([text, "1"])),
            "{text}: {parts:?}"
        );
    }
    // Half of them end.
    for (run, parts) in runs.iter().zip(&parts) {
        if parts[1] == "1" {
            one(&farm, success(&me, run)).await;
        }
    }
    write(&farm).await;
    let told = "SELECT count(*) FROM mixed WHERE said = 'succeeded' AND n = 1";
    farm.is(told, 5).await;
    farm.is("SELECT count(*) FROM mixed WHERE said IS NOT NULL", 5)
        .await;
}

#[tokio::test]
async fn a_row_waits_while_its_own_run_lives_and_a_part_that_is_null_is_told() {
    let farm = farm().await;
    farm.exec("INSERT INTO mixed (\"Of\", n) VALUES ('a', 1), ('a', 2), (NULL, 3), ('b', NULL)")
        .await;
    farm.job("mixed", job(of(&["Of", "n"])), None).await;
    let looked = dispatch(&farm.db, "mixed").await.unwrap();
    assert_eq!((looked.made, looked.keyless, &looked.problem), (2, true, &None));
    // Somebody frees a row whose run has not ended: it is not run beside itself.
    farm.exec("UPDATE mixed SET d = NULL WHERE n = 1").await;
    assert_eq!(dispatch(&farm.db, "mixed").await.unwrap().made, 0);
}

#[tokio::test]
async fn a_key_needs_an_index_of_exactly_its_columns() {
    let farm = farm().await;
    assert_eq!(check(&farm.db, &of(&["Of", "n"])).await.unwrap(), []);
    let found = check(&farm.db, &of(&["n", "Of"])).await.unwrap();
    assert!(found.iter().all(|problem| !problem.fatal), "{found:?}");
    for key in [&["Of", "at"][..], &["Of", "n", "at"], &["Of"]] {
        let found = check(&farm.db, &of(key)).await.unwrap();
        assert!(
            found[0].fatal && found[0].problem.contains("not unique"),
            "{found:?}"
        );
        farm.exec(&found[0].fix).await;
        let left = check(&farm.db, &of(key)).await.unwrap();
        assert!(left.iter().all(|problem| !problem.fatal), "{left:?}");
    }
    farm.exec(
        "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         ALTER TABLE mixed ADD price numeric NOT NULL, ADD id numeric(10), ADD kind char(3), ADD took interval,
            ADD label text COLLATE nocase"
    ).await;
    for (column, fits) in [
        ("price", false),
        ("took", false),
        ("label", false),
        ("id", true),
        ("kind", true),
    ] {
        let found = check(&farm.db, &of(&["Of", column])).await.unwrap();
        let told = found[0].problem.contains("equal values may have different texts");
        assert_eq!(told, !fits, "{column}: {found:?}");
        assert_eq!(
            found[0].fix.starts_with("of several columns"),
            !fits,
            "{column}: {found:?}"
        );
        let alone = check(&farm.db, &of(&[column])).await.unwrap();
        assert!(alone[0].problem.contains("is not unique"), "{alone:?}");
    }
    let found = check(&farm.db, &of(&["Of", "m"])).await.unwrap();
    assert_eq!(found[0].problem, "the table public.mixed has no column m (`key`)");
}

#[tokio::test]
async fn a_run_whose_key_is_no_key_holds_back_no_other_row() {
    let farm = farm().await;
    farm.exec("INSERT INTO mixed (\"Of\", n) VALUES ('a', 1), ('a', 2), ('a', 3)")
        .await;
    farm.job("mixed", job(of(&["Of", "n"])), None).await;
    assert_eq!(dispatch(&farm.db, "mixed").await.unwrap().made, 3);
    let me = farm.node("a").await;
    let runs = take(&farm, &me).await;
    for (run, key) in runs.iter().zip(["no json", "[\"a\", \"x\"]"]) {
        farm.sql
            .exec_with(
                "UPDATE farmhand.run_live SET key = $1 WHERE run_id = $2",
                &[&key, &run.run_id],
            )
            .await;
    }
    let ends: Vec<_> = runs.iter().map(|run| success(&me, run)).collect();
    finish(&farm.db, &ends).await.unwrap();
    write(&farm).await;
    farm.is("SELECT count(*) FROM mixed WHERE said = 'succeeded'", 1)
        .await;
    farm.is(
        "SELECT count(*) FROM farmhand.row_result WHERE error LIKE 'invalid input syntax%'",
        2,
    )
    .await;
}

#[tokio::test]
async fn a_primary_key_of_several_columns_is_proposed() {
    let farm = Farm::new().await;
    farm.exec("CREATE TABLE pairs (a int, note text, b text, sent_at timestamptz, PRIMARY KEY (a, b))")
        .await;
    let columns = describe(&farm.db, "public", "pairs").await.unwrap();
    let proposal = farmhand_import::Proposal::new("public".to_owned(), "pairs".to_owned(), &columns);
    assert_eq!(proposal.table.key, ["a", "b"]);
    assert_eq!(
        (proposal.missing, proposal.others),
        (vec![], vec!["note".to_owned()])
    );
}

#[tokio::test]
async fn a_key_with_a_time_is_the_same_for_sessions_of_other_zones() {
    let farm = Farm::new().await;
    farm.exec(
        "CREATE TABLE mixed (\"Of\" text, at timestamptz, d timestamptz, said text, PRIMARY KEY (\"Of\", at));
         INSERT INTO mixed VALUES ('a', '2026-11-25 06:00:00.25Z')"
    ).await;
    farm.job("mixed", job(of(&["Of", "at"])), None).await;
    let client = farm.test.client().await;
    let look = async |zone: &str| -> i32 {
        let set = format!("SET timezone = '{zone}'; SET datestyle = 'German'; UPDATE mixed SET d = NULL");
        client.exec(&set).await;
        let row = client
            .query_one("SELECT made FROM farmhand.dispatch_rows('mixed')", &[])
            .await;
        row.unwrap().get(0)
    };
    assert_eq!((look("Asia/Kolkata").await, look("UTC").await), (1, 0));
    let me = farm.node("a").await;
    let run = take(&farm, &me).await.remove(0);
    assert_eq!(run.key.as_deref(), Some("[\"a\", \"2026-11-25 06:00:00.25+00\"]"));
    farm.exec("UPDATE mixed SET d = now()").await;
    one(&farm, success(&me, &run)).await;
    write(&farm).await;
    farm.is("SELECT count(*) FROM mixed WHERE said = 'succeeded'", 1)
        .await;
}
