//! A job gets another name by a command, and by its file.

use super::farm::Farm;

const OLD: &str = "[job.old]\ncommand = ['true']\n[job.after]\ncommand = ['true']\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_renamed_by_a_command_and_the_old_name_says_so() {
    let farm = Farm::new().await;
    farm.apply(OLD);
    farm.run(&["job", "run", "old"]).ok();
    farm.run(&["job", "rename", "old", "new"])
        .refused(4, &["1 of its runs have not ended", "pause it"]);
    farm.run(&["run", "cancel", "--job", "old", "--yes"]).ok();
    farm.run(&["job", "rename", "old", "no name"])
        .refused(2, &["not a valid job name"]);
    let done = farm.run(&["job", "rename", "old", "new"]).ok();
    assert!(
        done.out
            .contains("old is new now; 1 of its runs have the new name"),
        "{done:?}"
    );
    assert!(done.err.contains("renamed_from = \"old\""), "{done:?}");
    let list = farm.run(&["run", "ls", "--job", "new", "--json"]).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    for args in [
        &["job", "show", "old"][..],
        &["job", "run", "old"],
        &["run", "ls", "--job", "old"],
        &["job", "rename", "old", "other"],
    ] {
        farm.run(args).refused(3, &["old was renamed to new"]);
    }
    farm.run(&["job", "rename", "nix", "other"])
        .refused(3, &["there is no job nix"]);
    // Its file still has the old name.
    let file = farm.file("jobs.toml", OLD);
    let file = file.to_str().unwrap();
    let refused = farm.run(&["job", "apply", file]);
    assert_eq!(refused.code, 4, "{refused:?}");
    for said in [
        "nothing was applied",
        "the job old was renamed to new",
        "renamed_from = \"old\"",
    ] {
        assert!(refused.err.contains(said), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_renamed_by_its_file_whose_apply_deletes_nothing() {
    let farm = Farm::new().await;
    let old = farm.file(
        "jobs.toml",
        &OLD.replace("[job.after]", "[job.after]\ntriggered_by = 'old'"),
    );
    let file = old.to_str().unwrap();
    farm.run(&["job", "apply", file]).ok();
    farm.run(&["job", "run", "old"]).ok();
    let text = "[job.new]\nrenamed_from = 'old'\ncommand = ['true']\n\
                [job.after]\ntriggered_by = 'new'\ncommand = ['true']\n";
    farm.file("jobs.toml", text);
    let dry_run = ["job", "apply", file, "--prune", "--dry-run"];
    farm.run(&dry_run)
        .refused(4, &["job old cannot be renamed: 1 of its runs have not ended"]);
    let more = "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
        SELECT 'old', 1, 'submitted', now(), now() FROM generate_series(1, 200)";
    let client = farm.db.client().await;
    client.batch_execute(more).await.unwrap();
    farm.run(&dry_run)
        .refused(4, &["200 or more of its runs have not ended"]);
    client
        .batch_execute(
            "DELETE FROM farmhand.run_live WHERE run_id > (SELECT min(run_id) FROM farmhand.run_live)",
        )
        .await
        .unwrap();
    farm.run(&["run", "cancel", "--job", "old", "--yes"]).ok();
    let other = "[job.new]\nrenamed_from = 'old'\ncommand = ['true']\n";
    let other = farm.file("other.toml", other);
    farm.run(&["job", "apply", "--dry-run", other.to_str().unwrap()])
        .refused(4, &[&format!("the job old is defined by another source: {file}")]);
    let diff = farm.run(&["job", "diff", "--prune", file]).ok();
    assert!(
        diff.out
            .contains("~ new\n  - name = \"old\"\n  + name = \"new\"\n")
            && !diff.out.contains("- old"),
        "{diff:?}"
    );
    let plan = farm.run(&dry_run).ok();
    assert!(
        plan.out.contains("~ new  renamed from old") && !plan.out.contains("- old"),
        "{plan:?}"
    );
    // Without --yes: nothing is deleted.
    farm.run(&["job", "apply", file, "--prune"]).ok();
    let list = farm.run(&["run", "ls", "--job", "new", "--json"]).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    let again = farm.run(&["job", "apply", file, "--prune"]).ok();
    assert!(
        again.err.contains("0 new, 0 changed, 2 unchanged, 0 deleted"),
        "{again:?}"
    );
    farm.file("jobs.toml", OLD);
    let refused = farm.run(&["job", "apply", file, "--prune", "--yes"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.err.contains("the job old was renamed to new"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_triggered_by_a_former_name_is_told_the_new_one() {
    let farm = Farm::new().await;
    farm.apply(OLD);
    let stale = OLD.replace("[job.old]", "[job.new]\nrenamed_from = 'old'");
    let stale = stale.replace("[job.after]", "[job.after]\ntriggered_by = 'old'");
    let file = farm.file("jobs.toml", &stale);
    let apply = ["job", "apply", file.to_str().unwrap(), "--dry-run"];
    for args in [apply.to_vec(), [apply.as_slice(), &["--prune"]].concat()] {
        farm.run(&args)
            .refused(2, &["these files rename it: write \"new\""]);
    }
}
