//! Parameters of a run: the database and the binary are of one mind about what is good.

use std::collections::BTreeMap;

use farmhand_core::definition::{JobSpec, ParamSpec, ParamType, resolve_params};
use serde_json::{Value, json};
use tokio_postgres::types::Json;

use crate::fixture::{Farm, spec};

/// JSON, between semicolons.
const GOOD: [(ParamType, &str); 6] = [
    (ParamType::String, r#"""; "5m"; "a \"b\"\n\u00fc🙂\t{x}""#),
    (
        ParamType::Integer,
        r#"0; -1; -0; 9223372036854775807; -9223372036854775808; 1e3"#,
    ),
    (
        ParamType::Number,
        r#"0; -2.5; 3; 1e308; -1e308; 1e-400; 0.1e1; 123456789012345678901234567890"#,
    ),
    (ParamType::Boolean, r#"true; false"#),
    (
        ParamType::Duration,
        r#""5m"; "1h30m"; "0s"; "5ms"; "1m5ms"; "1w2d3h4m5s6ms";
            "0000000000000000000000000000000000000005m"; "36600d"; "3162240000s""#,
    ),
    (
        ParamType::Date,
        r#""2026-12-31"; "2024-02-29"; "2000-02-29"; "0000-02-29"; "0001-01-01"; "9999-12-31""#,
    ),
];

const BAD: [(ParamType, &str); 6] = [
    (ParamType::String, r#"5; true; null; []; {"a": 1}"#),
    (
        ParamType::Integer,
        r#"1.5; 3.0; "3"; true; null; [3]; 9223372036854775808; -9223372036854775809; 1e30"#,
    ),
    (ParamType::Number, r#""1"; null; true; 1.1e308; -1.7e308"#),
    (ParamType::Boolean, r#"0; 1; "true"; null"#),
    (
        ParamType::Duration,
        r#"5; null; ""; "soon"; "5"; "m"; "5 m"; " 5m"; "5m\n"; "-5m"; "+5m"; "1.5h"; "5M";
            "5min"; "5m1h"; "5m5m"; "5ms5s"; "5y"; "٥m"; "36601d"; "3162240000001ms";
            "18446744073709551616ms"; "99999999999999999999999999999999999999999m"; "PT5M""#,
    ),
    (
        ParamType::Date,
        r#"20261231; null; "tomorrow"; "2026-02-30"; "2025-02-29"; "1900-02-29"; "2026-04-31";
            "2026-13-01"; "2026-00-01"; "2026-01-00"; "2026-1-01"; "20261231"; "2026/12/31";
            "2026-W53-4"; "26-12-31"; "-026-12-31"; "2026-12-31 "; "2026-12-31T00:00"; "infinity";
            "٢٠٢٦-12-31""#,
    ),
];

fn job_with(kind: ParamType) -> JobSpec {
    let param = ParamSpec {
        kind,
        default: None,
        required: false,
    };
    JobSpec {
        params: BTreeMap::from([("p".to_owned(), param)]),
        ..spec()
    }
}

#[tokio::test]
async fn the_database_and_the_binary_give_the_same_verdict_on_every_value() {
    let farm = Farm::new().await;
    let good = GOOD.map(|(kind, values)| (kind, values, true));
    let bad = BAD.map(|(kind, values)| (kind, values, false));
    for (kind, values, good) in good.into_iter().chain(bad) {
        let spec = job_with(kind);
        farm.job("typed", spec.clone(), None).await;
        for text in values.split(';').map(str::trim) {
            let params = format!("{{\"p\": {text}}}");
            // As the database gives it back to an agent: 1e3 is 1000 there. What no agent can read is bad.
            let stored = farm
                .sql
                .query_one("SELECT $1::text::jsonb", &[&params])
                .await
                .unwrap();
            let read = stored.try_get::<_, Json<serde_json::Map<String, Value>>>(0);
            let by_binary = read.is_ok_and(|given| resolve_params(&spec, &given.0).is_ok());
            let submitted = farm
                .sql
                .query_one("SELECT farmhand.submit('typed', $1::text::jsonb)", &[&params])
                .await;
            assert_eq!(by_binary, good, "{kind:?} {text} in the binary");
            assert_eq!(
                submitted.is_ok(),
                good,
                "{kind:?} {text} in the database: {submitted:?}"
            );
            if let Err(error) = submitted {
                let error = error.as_db_error().expect("an answer").clone();
                let kind = json!(kind);
                let said = format!(
                    "parameter \"p\" of job \"typed\" must be of type {}",
                    kind.as_str().unwrap()
                );
                assert!(error.message().starts_with(&said), "{error:?}");
                assert_eq!(error.code().code(), "22023", "{error:?}");
                assert!(
                    error.hint().is_some_and(|hint| hint.starts_with("Write ")),
                    "{error:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_names_the_job_the_parameter_what_was_given_and_what_would_do() {
    let farm = Farm::new().await;
    farm.job("mail", job_with(ParamType::Duration), None).await;
    farm.job("plain", spec(), None).await;
    let long = format!("{{\"p\": \"{}\"}}", "x".repeat(100_000));
    let cases = [
        (
            "mail",
            r#"{"p": "soon"}"#,
            "parameter \"p\" of job \"mail\" must be of type duration, not \"soon\"",
            "1h30m",
        ),
        (
            "mail",
            r#"{"q": 1}"#,
            "job \"mail\" has no parameter \"q\"",
            "Its parameters are p.",
        ),
        (
            "plain",
            r#"{"q": 1}"#,
            "job \"plain\" has no parameter \"q\"",
            "It takes none.",
        ),
        (
            "mail",
            "[]",
            "params of job \"mail\" must be a JSON object",
            "{\"name\": value}",
        ),
        ("mail", &long, "must be of type duration, not \"xxx", "1h30m"),
    ];
    for (job, params, message, hint) in cases {
        let refused = farm
            .sql
            .query_one("SELECT farmhand.submit($1, $2::text::jsonb)", &[&job, &params])
            .await
            .unwrap_err();
        let error = refused.as_db_error().unwrap();
        assert!(error.message().contains(message), "{error:?}");
        assert!(error.hint().is_some_and(|h| h.contains(hint)), "{error:?}");
        assert!(error.message().len() < 400, "not the whole of it");
    }
    farm.is("SELECT count(*) FROM farmhand.run", 0).await;
}

#[tokio::test]
async fn an_instant_that_no_client_could_read_is_refused() {
    let farm = Farm::new().await;
    farm.job("mail", spec(), None).await;
    for due in ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC"] {
        let sql = format!("SELECT farmhand.submit('mail', due_at => '{due}')");
        let refused = farm.sql.query_one(&sql, &[]).await.unwrap_err();
        let error = refused.as_db_error().unwrap();
        assert!(
            error.message().contains("job \"mail\" cannot be due at"),
            "{error:?}"
        );
    }
    // As one that was left out.
    farm.i64("SELECT farmhand.submit('mail', due_at => NULL)").await;
    farm.is("SELECT count(*) FROM farmhand.run_live WHERE due_at <= now()", 1)
        .await;
}
