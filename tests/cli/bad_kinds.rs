//! What is wrong with a job of one kind or another, said before anything runs.

use super::farm::Farm;

const TABLE: &str =
    "[job.t]\ncommand = ['true']\n[job.t.table]\nname = 'shop.t'\nkey = 'id'\ndispatch = 'd'\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_table_or_column_that_is_not_there_or_may_not_be_updated_is_refused_by_apply() {
    let farm = Farm::new().await;
    let file = farm.file("t.toml", TABLE);
    let refused = |said: &[&str]| {
        let ran = farm.run(&["job", "apply", file.to_str().unwrap()]);
        assert_eq!(ran.code, 4, "{ran:#?}");
        for part in said.iter().chain(&["nothing was applied"]) {
            assert!(ran.err.contains(part), "{part:?} is missing: {ran:#?}");
        }
    };
    refused(&["job t: there is no table shop.t"]);
    // Somebody else's table.
    let admin = farm.db.admin().await;
    let does = async |sql: &str| admin.exec(sql).await;
    does("CREATE SCHEMA shop; GRANT USAGE ON SCHEMA shop TO farm; CREATE TABLE shop.t (id int PRIMARY KEY)")
        .await;
    refused(&["job t: the table shop.t has no column d (`dispatch`)"]);
    does("ALTER TABLE shop.t ADD COLUMN d timestamptz; GRANT SELECT ON shop.t TO farm").await;
    refused(&["shop.t", "may not", "GRANT", "UPDATE"]);
    does("GRANT UPDATE (id) ON shop.t TO farm").await;
    refused(&["shop.t", "may not", "GRANT", "UPDATE", "d"]);
    does("ALTER TABLE shop.t RENAME TO real; CREATE VIEW shop.t AS SELECT * FROM shop.real; GRANT ALL ON shop.t TO farm").await;
    refused(&["job t: shop.t is no table"]);
    assert_eq!(
        farm.run(&["job", "ls", "--json"]).json()["items"],
        serde_json::json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_instances_and_too_many_are_refused_with_their_place() {
    let farm = Farm::new().await;
    for instances in ["0", "-1", "10001", "'two'", "1.5"] {
        let file = farm.file(
            "i.toml",
            &format!("[job.i]\ncommand = ['x']\ninstances = {instances}\n"),
        );
        farm.run(&["job", "apply", file.to_str().unwrap()])
            .refused(2, &["i.toml:3:13", "instances", "Nothing was applied"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_of_the_wrong_type_is_refused_by_the_command_and_by_the_function() {
    let farm = Farm::new().await;
    let types = ["integer", "number", "boolean", "duration", "date"];
    let params = types.map(|t| format!("{t} = {{ type = '{t}' }}")).join(", ");
    farm.apply(&format!("[job.p]\ncommand = ['true']\nparams = {{ {params} }}\n"));
    let sql = farm.db.client().await;
    for (name, bad, expected) in [
        ("integer", "1.5", "an integer of 64 bits"),
        ("number", "two", "a number"),
        ("boolean", "yes", "true or false"),
        ("duration", "soon", "a duration such as \"5m\""),
        ("date", "2026-02-30", "a date such as \"2026-12-31\""),
    ] {
        farm.run(&["job", "run", "p", "-p", &format!("{name}={bad}")])
            .refused(2, &[&format!("parameter `{name}`: expected {expected}"), bad]);
        let given = serde_json::json!({name: bad});
        let refused = sql
            .query_one("SELECT farmhand.submit('p', $1)", &[&given])
            .await
            .unwrap_err();
        let error = refused.as_db_error().expect("an answer");
        let said = format!("parameter \"{name}\" of job \"p\" must be of type {name}, not \"{bad}\"");
        assert_eq!(error.message(), said);
        assert_eq!(error.code().code(), "22023");
        assert!(error.hint().is_some(), "{error:?}");
    }
    assert_eq!(
        farm.run(&["run", "ls", "--json"]).json()["items"],
        serde_json::json!([])
    );
}
