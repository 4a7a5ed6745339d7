//! `{instance}`, `{slot}` and `{due}` in the commands of every kind of job.

use farmhand_tests::farm::Farm;

/// Compares the arguments with the variables, which say the same.
const SAME: &str = r#"["sh", "-c", 'test "$1|$2|$3|$4" = "i=$FARMHAND_INSTANCE|$FARMHAND_SLOT|at $FARMHAND_DUE.|{{instance}}"',
    "sh", "i={instance}", "{slot}", "at {due}.", "{{instance}}"]"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_told_its_instance_its_slot_and_when_it_was_due_whatever_the_kind_of_job() {
    let farm = Farm::new().start().await;
    farm.exec("CREATE TABLE r (id int PRIMARY KEY, d boolean); INSERT INTO r VALUES (1)")
        .await;
    std::fs::write(farm.dir().join("lines"), "one\ntwo\n").unwrap();
    farm.apply(&format!(
        r#"
[job.plain]
command = {SAME}
instances = 2
[job.parent]
command = ["true"]
[job.child]
command = {SAME}
triggered_by = "parent"
[job.row]
command = {SAME}
table = {{ name = "r", key = "id", dispatch = "d", poll = "200ms" }}
[job.lines]
command = {SAME}
stream = {{ file = "@DIR@/lines", follow = false, workers = 2 }}
[job.tasks.task.a]
command = {SAME}
"#
    ));
    for job in ["plain", "parent", "lines", "tasks"] {
        farm.submit(job).await;
    }
    for (job, count) in [("plain", 2), ("child", 1), ("row", 1), ("lines", 1), ("tasks", 1)] {
        farm.first_run(job).await;
        let runs = farm.runs(job).await;
        assert_eq!(runs.len(), count, "{job}");
        for run in runs {
            farm.succeeds(run.run_id).await;
        }
    }
    farm.check().await;
}
