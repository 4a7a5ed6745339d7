//! `{instance}`, `{slot}` and `{due}` in the commands of every kind of job.

use farmhand_tests::farm::{Farm, SOON};

/// Compares the arguments with the variables, which say the same.
const SAME: &str = r#"["sh", "-c", 'test "$1|$2|$3|$4" = "i=$FARMHAND_INSTANCE|$FARMHAND_SLOT|at $FARMHAND_DUE.|{{instance}}"',
    "sh", "i={instance}", "{slot}", "at {due}.", "{{instance}}"]"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_told_its_instance_its_slot_and_when_it_was_due_whatever_the_kind_of_job() {
    let farm = Farm::new().start().await;
    farm.sql
        .batch_execute("CREATE TABLE r (id int PRIMARY KEY, d boolean); INSERT INTO r VALUES (1)")
        .await
        .unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_taken_over_after_a_kill_is_called_with_the_same_number() {
    let mut farm = Farm::new().agents(2).start().await;
    farm.apply(
        r#"
[job.shards]
instances = 2
command = ["sh", "-c", 'echo "$1" >> @DIR@/began; [ -e @DIR@/go ] || { echo >> @DIR@/waits; exec sleep 600; }', "sh", "shard={instance}"]
"#,
    );
    let began = |farm: &Farm| {
        let text = std::fs::read_to_string(farm.dir().join("began")).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    farm.submit("shards").await;
    farm.eventually("both shards run", SOON, async || {
        let waits = std::fs::read_to_string(farm.dir().join("waits")).unwrap_or_default();
        (waits.lines().count() == 2)
            .then_some(())
            .ok_or(format!("{waits:?}"))
    })
    .await;
    assert_eq!(began(&farm), ["shard=0", "shard=1"]);
    let runs = farm.runs("shards").await;
    let lost = runs.iter().min_by_key(|run| run.run_id).unwrap().run_id;
    let at = farm.run(lost).await.running_at.unwrap();
    std::fs::write(farm.dir().join("go"), "").unwrap();
    farm.agent(&at).kill_with_wardens();
    farm.succeeds(lost).await;
    let again = began(&farm);
    assert_eq!(
        again.iter().filter(|line| *line == "shard=0").count(),
        2,
        "{again:?}"
    );
}
