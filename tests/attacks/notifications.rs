//! One row that cannot be read or sent silences nothing else that people are to be told.

use std::time::Duration;

use farmhand_store::notify::{Settled, claim, settle, targets};

use super::logins::{Attacked, CHECKED, refused};

/// A target of this name and definition.
fn target(name: &str, spec: &str) -> String {
    format!(
        "INSERT INTO farmhand.notify_target (name, spec, source, changed_by, changed_at)
         VALUES ('{name}', '{spec}', '', '', now())"
    )
}

#[tokio::test]
async fn rows_that_would_silence_every_notification_are_refused() {
    let a = Attacked::new().await;
    for spec in [
        r#"{"email": "x"}"#,
        r#"{"email": [1]}"#,
        r#"{"on": "failure"}"#,
        r#"{"on": ["x"]}"#,
        r#"{"on": [1]}"#,
        r#"{"webhook": 5}"#,
        r#"{"webhook_file": []}"#,
        r#"{"headers_file": {}}"#,
    ] {
        refused(&a.operator, &target("x", spec), CHECKED).await;
    }
    let message = |columns: &str, values: &str| {
        format!(
            "INSERT INTO farmhand.notification (channel, topic, key, {columns}) VALUES ('email', 'failure', 'k', {values})"
        )
    };
    for statement in [
        "INSERT INTO farmhand.notify_target (name, spec, source, changed_by, changed_at)
             VALUES (E'a\\nb', '{}', '', '', now())",
        "INSERT INTO farmhand.notify_edge (job_id, target) VALUES (E'a\\nb', 'ops')",
        "INSERT INTO farmhand.notify_edge (job_id, target) VALUES ('j', E'a\\nb')",
        "INSERT INTO farmhand.notify_note (job_id, what, run_id, attempt, outcome) VALUES (E'a\\nb', 'end', 1, 1, 'failed')",
        "INSERT INTO farmhand.notify_note (job_id, what, run_id, attempt, outcome, at)
             VALUES ('j', 'end', 1, 1, 'failed', 'infinity')",
        "INSERT INTO farmhand.notify_note (job_id, what, run_id, attempt, outcome, due_at)
             VALUES ('j', 'end', 1, 1, 'failed', '-infinity')",
        &message("target, body", "'ops', '5'"),
        &message("target, body", r"E'a\nb', '{}'"),
        &message("target, body, created_at", "'ops', '{}', 'infinity'"),
    ] {
        refused(&a.operator, statement, CHECKED).await;
    }
    // What honest clients write.
    for spec in [
        r#"{"webhook": "https://h", "webhook_file": null, "headers_file": null, "email": [], "on": ["failure", "recovery"]}"#,
        r#"{"email": ["a@example.org"]}"#,
    ] {
        let statement = format!(
            "{} ON CONFLICT (name) DO UPDATE SET spec = excluded.spec",
            target("ops", spec)
        );
        a.operator.batch_execute(&statement).await.expect(spec);
    }
}

/// A newer release's schema may allow what this release cannot read.
#[tokio::test]
async fn a_target_that_cannot_be_read_is_left_out_and_the_others_are_told() {
    let a = Attacked::new().await;
    a.owner
        .exec(
            "DO $$ DECLARE c record; BEGIN
             FOR c IN SELECT conname, conrelid::regclass AS rel FROM pg_constraint WHERE contype = 'c'
                 AND conrelid IN ('farmhand.notify_target'::regclass, 'farmhand.notification'::regclass) LOOP
                 EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.rel, c.conname);
             END LOOP;
         END $$",
        )
        .await;
    for (name, spec) in [
        ("broken", r#"{"email": "x"}"#),
        (
            "newer",
            r#"{"webhook": "https://h", "on": ["failure", "of_tomorrow"]}"#,
        ),
        ("ops", r#"{"webhook": "https://h", "email": ["a@example.org"]}"#),
    ] {
        a.operator.batch_execute(&target(name, spec)).await.expect(spec);
    }
    a.owner
        .exec(
            "INSERT INTO farmhand.notify_edge (job_id, target) SELECT 'j', name FROM farmhand.notify_target;
         INSERT INTO farmhand.notification (target, channel, topic, job_id, key, body) VALUES
             ('broken', 'email', 'failure', 'j', 'k', '{}'), ('ops', 'email', 'of_tomorrow', NULL, 'k', '{}');
         SELECT farmhand.write_ends(array_agg(h)) FROM farmhand.run_live r,
             LATERAL farmhand.ended(r, 'failed', 'x', 'holder') h",
        )
        .await;
    let db = a.test.agent_db().await;
    let settled = settle(&db, &[]).await.expect("the notes are settled");
    assert_eq!(
        settled,
        Settled::Done {
            messages: 3,
            more: false
        }
    );
    let claimed = claim(&db, "n", 10, &[], Duration::from_secs(60))
        .await
        .expect("messages");
    let mut told: Vec<_> = claimed
        .iter()
        .map(|d| {
            format!(
                "{} {} {}",
                d.target,
                d.channel,
                if d.spec.is_some() {
                    "to be sent"
                } else {
                    "given up"
                }
            )
        })
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            "broken email given up",
            "newer webhook to be sent",
            "ops email to be sent",
            "ops email to be sent",
            "ops webhook to be sent"
        ]
    );
    assert_eq!(targets(&db).await.expect("targets").len(), 3);
}
