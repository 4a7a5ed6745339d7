use farmhand_tests::acting::anna;
use std::collections::BTreeMap;

use farmhand_core::definition::{Enabled, JobSpec, Overlap, ParamSpec, ParamType};
use farmhand_store::StoreError;
use farmhand_store::jobs::{Submission, submit, submit_overlapping};
use farmhand_store::protocol::claim;
use serde_json::{Value, json};

use crate::fixture::{Farm, one, past, spec, success, until_blocked};
use crate::rounds::looping;

fn param(kind: ParamType, required: bool) -> ParamSpec {
    ParamSpec {
        kind,
        default: None,
        required,
    }
}

async fn farm_with_job() -> Farm {
    let farm = Farm::new().await;
    let params = BTreeMap::from([
        ("since".to_owned(), param(ParamType::Duration, false)),
        ("count".to_owned(), param(ParamType::Integer, false)),
        ("dry".to_owned(), param(ParamType::Boolean, false)),
    ]);
    farm.job("mail", JobSpec { params, ..spec() }, None).await;
    farm
}

#[tokio::test]
async fn a_submitted_run_carries_its_parameters_and_is_claimed_at_once() {
    let farm = farm_with_job().await;
    let me = farm.node("a").await;
    let params = json!({"since": "5m", "count": 3});
    let run_id = submit(&farm.db, "mail", &params, None, None).await.unwrap();
    let run = claim(&farm.db, &me, 9, None).await.unwrap().remove(0);
    assert_eq!((run.run_id, run.params), (run_id, params));
    assert_eq!(run.kind, farmhand_store::RunKind::Submitted);
}

#[tokio::test]
async fn a_later_due_time_is_waited_for() {
    let farm = farm_with_job().await;
    let me = farm.node("a").await;
    submit(&farm.db, "mail", &json!({}), Some(past(-60)), None)
        .await
        .unwrap();
    assert!(claim(&farm.db, &me, 9, None).await.unwrap().is_empty());
}

#[tokio::test]
async fn wrong_submissions_are_refused_with_a_reason() {
    let farm = farm_with_job().await;
    let cases: [(&str, Value, &str); 6] = [
        ("mail", json!({"sinc": "5m"}), "no parameter \"sinc\""),
        ("mail", json!({"count": "3"}), "must be of type integer"),
        ("mail", json!({"count": 1.5}), "must be of type integer"),
        ("mail", json!({"since": 5}), "must be of type duration"),
        ("mail", json!({"dry": "no"}), "must be of type boolean"),
        ("mail", json!([]), "must be a JSON object"),
    ];
    for (job, params, why) in cases {
        let error = submit(&farm.db, job, &params, None, None).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Refused(m) if m.contains(why)),
            "{params}: {error}"
        );
    }
    let unknown = submit(&farm.db, "post", &json!({}), None, None)
        .await
        .unwrap_err();
    assert!(matches!(unknown, StoreError::NotFound(_)), "{unknown}");
    farm.job(
        "off",
        JobSpec {
            enabled: Enabled::No,
            ..spec()
        },
        None,
    )
    .await;
    let disabled = submit(&farm.db, "off", &json!({}), None, None).await.unwrap_err();
    assert!(matches!(disabled, StoreError::Refused(_)), "{disabled}");
    let needed = BTreeMap::from([("id".to_owned(), param(ParamType::String, true))]);
    farm.job(
        "strict",
        JobSpec {
            params: needed,
            ..spec()
        },
        None,
    )
    .await;
    let missing = submit(&farm.db, "strict", &json!({}), None, None)
        .await
        .unwrap_err();
    assert!(
        missing.to_string().contains("needs the parameter \"id\""),
        "{missing}"
    );
    farm.is("SELECT count(*) FROM farmhand.run", 0).await;
}

#[tokio::test]
async fn one_key_makes_one_run_however_often_and_from_how_many() {
    let farm = farm_with_job().await;
    let tries = (0..8).map(|_| {
        let db = farm.db.clone();
        tokio::spawn(async move {
            submit(&db, "mail", &json!({}), None, Some("order-7"))
                .await
                .unwrap()
        })
    });
    let mut ids = Vec::new();
    for t in tries.collect::<Vec<_>>() {
        ids.push(t.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    farm.is("SELECT count(*) FROM farmhand.run_live", 1).await;
    let other = submit(&farm.db, "mail", &json!({}), None, Some("order-8"))
        .await
        .unwrap();
    assert_ne!(other, ids[0]);
}

#[tokio::test]
async fn a_key_in_an_open_transaction_is_waited_for_and_forgotten_with_it() {
    let farm = farm_with_job().await;
    let caller = farm.test.client().await;
    let insert = "SELECT farmhand.submit('mail', idempotency_key => 'k')";
    caller.exec(&format!("BEGIN; {insert}")).await;
    let db = farm.db.clone();
    let second = tokio::spawn(async move { submit(&db, "mail", &json!({}), None, Some("k")).await.unwrap() });
    until_blocked(&farm).await;
    caller.exec("ROLLBACK").await;
    let run_id = second.await.unwrap();
    farm.is("SELECT run_id FROM farmhand.run_live", run_id).await;
}

#[tokio::test]
async fn a_submission_meets_no_rounds_of_a_continuous_job() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let round = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    let params = json!({});
    let mut made = Vec::new();
    for overlap in [Overlap::Queue, Overlap::Replace, Overlap::Skip] {
        let what = Submission {
            job_id: "loop",
            params: &params,
            key: None,
            overlap,
            by: None,
        };
        let run = submit_overlapping(&anna(&farm.db), what, true).await.unwrap();
        let claimed = claim(&farm.db, &me, 9, None).await.unwrap();
        assert_eq!(claimed.len(), 1, "{overlap:?} {:?}", farm.state(run.run_id).await);
        one(&farm, success(&me, &claimed[0])).await;
        made.push(run.run_id);
    }
    let round = format!(
        "SELECT count(*) FROM farmhand.run_live WHERE run_id = {} AND cancel_by IS NULL",
        round.run_id
    );
    assert_eq!(farm.i64(&round).await, 1, "{made:?}");
}

#[tokio::test]
async fn of_two_submissions_with_one_key_that_wait_for_the_job_one_is_a_repetition() {
    let farm = farm_with_job().await;
    let holder = farm.test.client().await;
    let hold = "BEGIN; SELECT FROM farmhand.job FOR UPDATE";
    holder.exec(hold).await;
    let submitting = || {
        let db = farm.db.clone();
        tokio::spawn(async move {
            let params = json!({});
            let what = Submission {
                job_id: "mail",
                params: &params,
                key: Some("k"),
                overlap: Overlap::Skip,
                by: Some("eve"),
            };
            submit_overlapping(&anna(&db), what, true).await.unwrap()
        })
    };
    let both = [submitting(), submitting()];
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    farm.until(waiting, 2).await;
    holder.exec("COMMIT").await;
    let [a, b] = both;
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    assert_eq!(a.run_id, b.run_id);
    assert_eq!(
        usize::from(a.runs == 0) + usize::from(b.runs == 0),
        1,
        "{a:?} {b:?}"
    );
    let told = "SELECT count(*) FROM farmhand.event WHERE kind = 'run_submitted'";
    farm.is(told, 1).await;
}

#[tokio::test]
async fn a_submission_is_part_of_its_callers_transaction() {
    let farm = farm_with_job().await;
    let me = farm.node("a").await;
    let caller = farm.test.client().await;
    caller
        .exec("CREATE TABLE orders (id int); BEGIN; INSERT INTO orders VALUES (1); SELECT farmhand.submit('mail')").await;
    assert!(claim(&farm.db, &me, 9, None).await.unwrap().is_empty());
    caller.exec("ROLLBACK").await;
    farm.is("SELECT count(*) FROM farmhand.run", 0).await;
    caller.exec("BEGIN; SELECT farmhand.submit('mail'); COMMIT").await;
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_submitters_role_can_submit_and_nothing_else() {
    let farm = farm_with_job().await;
    let admin = farm.test.admin().await;
    let role = format!("shop_{}", std::process::id());
    admin
        .exec(&format!(
            "CREATE ROLE {role}; GRANT farmhand_submitter TO {role}; SET ROLE {role}"
        ))
        .await;
    admin
        .query_one("SELECT farmhand.submit('mail', '{\"count\": 1}')", &[])
        .await
        .unwrap();
    for denied in [
        "SELECT 1 FROM farmhand.run",
        "SELECT 1 FROM farmhand.job_revision",
        "UPDATE farmhand.node SET open = false",
        "INSERT INTO farmhand.run_live (job_id) VALUES ('x')",
        "CREATE TABLE farmhand.mine ()",
    ] {
        let error = admin.batch_execute(denied).await.unwrap_err();
        assert_eq!(
            error.code(),
            Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE),
            "{denied}"
        );
    }
    // Nor by objects of its own in the way of the function's names.
    admin.exec(
        "RESET ROLE; CREATE SCHEMA trap; CREATE FUNCTION trap.jsonb_typeof(jsonb) RETURNS text LANGUAGE sql
             AS 'SELECT NULL::text'; SET search_path = trap, pg_catalog"
    ).await;
    admin
        .exec(&format!("GRANT USAGE ON SCHEMA trap TO {role}; SET ROLE {role}"))
        .await;
    let refused = admin
        .query_one("SELECT farmhand.submit('mail', '[]')", &[])
        .await
        .unwrap_err();
    assert!(
        refused
            .as_db_error()
            .unwrap()
            .message()
            .contains("must be a JSON object")
    );
    admin
        .exec(&format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

#[tokio::test]
async fn a_repetition_is_answered_whatever_became_of_the_job() {
    let farm = farm_with_job().await;
    let made = submit(&farm.db, "mail", &json!({}), None, Some("k"))
        .await
        .unwrap();
    let off = JobSpec {
        enabled: Enabled::No,
        ..spec()
    };
    farm.job("mail", off, None).await;
    let again = submit(&farm.db, "mail", &json!({}), None, Some("k")).await;
    assert_eq!(again.unwrap(), made);
    assert!(
        submit(&farm.db, "mail", &json!({}), None, Some("l"))
            .await
            .is_err()
    );
}
