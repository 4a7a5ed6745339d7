//! `farmhand ack`: a cause of `farmhand status` that is known does not lead.

use super::farm::Farm;

#[tokio::test(flavor = "multi_thread")]
async fn what_status_names_is_acknowledged_listed_and_taken_back() {
    let mut farm = Farm::new().await;
    farm.run(&["migrate"]).ok();
    farm.apply("[job.backup]\ncommand = [\"true\"]\n[job.mail]\ncommand = [\"true\"]\n");
    farm.agent("n1");
    let sql = farm.db.client().await;
    let failed =
        "INSERT INTO farmhand.job_stat (job_id, consecutive_failures) VALUES ('backup', 3), ('mail', 1)";
    sql.batch_execute(failed).await.unwrap();
    let status = || {
        // An exit code says whether the farm could be asked, never how it is.
        let ran = farm.run(&["status"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let shown = status();
    let line = "! 2 jobs are failing: backup, 3 failures in a row [failing:backup failing:mail]";
    assert!(shown.contains(line), "{shown}");

    let ran = farm.run(&["ack", "failing:backup", "--for", "2h", "--note", "disk ordered"]);
    assert!(ran.ok().out.starts_with("failing:backup does not lead until "));
    let shown = status();
    assert!(
        shown.contains("! 1 job is failing: mail, 1 failure [failing:mail]"),
        "{shown}"
    );
    let last = shown
        .lines()
        .find(|line| line.starts_with("- "))
        .expect("what is known");
    assert!(
        last.starts_with(
            "- 1 job is failing: backup, 3 failures in a row [failing:backup], acknowledged by "
        )
    );
    assert!(last.ends_with(": disk ordered"), "{last}");
    farm.run(&["ack", "failing:mail"]).ok();
    let shown = status();
    assert!(
        shown.contains("well, except for 2 acknowledged causes"),
        "{shown}"
    );
    let json = farm.run(&["status", "--json"]).json();
    assert_eq!(
        (&json["level"], &json["failing"][0]["job_id"]),
        (&"well".into(), &"backup".into())
    );
    let top = farm.run(&["top", "--once"]);
    assert!(top.out.contains("- 1 job is failing: mail"), "{top:?}");

    let listed = farm.run(&["ack", "--list"]).ok().out;
    let rows: Vec<_> = listed
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>())
        .collect();
    assert_eq!(
        rows,
        [
            ["CAUSE", "HOLDS"],
            ["failing:backup", "yes"],
            ["failing:mail", "yes"]
        ]
    );
    // It succeeded: what was said holds for nothing any more.
    let over =
        "UPDATE farmhand.job_stat SET consecutive_failures = 0, last_success = now() WHERE job_id = 'mail'";
    sql.batch_execute(over).await.unwrap();
    let listed = farm.run(&["ack", "--list", "--json"]).json();
    let holds = |nth: usize| (listed[nth]["cause"].clone(), listed[nth]["holds"].clone());
    assert_eq!(
        (holds(0), holds(1)),
        (
            ("failing:backup".into(), true.into()),
            ("failing:mail".into(), false.into())
        )
    );
    farm.run(&["ack", "--remove", "failing:backup"]).ok();
    assert!(status().contains("! 1 job is failing: backup"));

    // One of more than a list of the verdict shows.
    let many = "INSERT INTO farmhand.job_stat (job_id, consecutive_failures)
        SELECT job_id, 5 FROM farmhand.job ON CONFLICT (job_id) DO UPDATE SET consecutive_failures = 5, last_success = NULL";
    let jobs: String = (0..25)
        .map(|n| format!("[job.many-{n:02}]\ncommand = [\"true\"]\n"))
        .collect();
    farm.apply(&jobs);
    sql.batch_execute(many).await.unwrap();
    for n in (0..25).rev() {
        farm.run(&["ack", &format!("failing:many-{n:02}")]).ok();
    }

    farm.run(&["ack", "--remove", "failing:backup"])
        .refused(3, &["failing:backup is not acknowledged"]);
    farm.run(&["ack", "failing:nope"])
        .refused(3, &["failing:nope is not a cause", "farmhand status"]);
    farm.run(&["ack", "backup"]).refused(2, &["KIND:NAME"]);
    farm.run(&["ack", "failing:backup", "--for", "31d"])
        .refused(2, &["at most 30d"]);
    assert_eq!(farm.run(&["ack"]).code, 2);
}
