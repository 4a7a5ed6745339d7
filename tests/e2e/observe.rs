//! Off cron: an imported crontab that observes is recorded and never executed, is held against cron's log, and then runs.

use std::fmt::Write;
use std::time::Duration;

use farmhand_tests::farm::Farm;

/// When the job was observed on a node, in whole seconds.
async fn observed(farm: &Farm, node: &str) -> Vec<i64> {
    let rows = farm
        .sql
        .query(
            "SELECT extract(epoch FROM first_due)::bigint FROM farmhand.run_history
             WHERE job_id = 'beat' AND node = $1 AND state = 'skipped' AND reason = 'observed' AND count = 1 ORDER BY 1",
            &[&node],
        )
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_crontab_observes_beside_cron_and_runs_once_observe_is_taken_out() {
    let farm = Farm::new().agents(2).start().await;
    let (tabs, out, ran) = (
        farm.dir().join("tabs"),
        farm.dir().join("jobs.toml"),
        farm.dir().join("ran"),
    );
    std::fs::create_dir(&tabs).unwrap();
    let command = format!("echo beat >> {}", ran.display());
    for host in ["n1", "n2"] {
        std::fs::write(tabs.join(host), format!("@every_second {command}\n")).unwrap();
    }
    let (tabs, out) = (tabs.display().to_string(), out.display().to_string());
    // Whom the agents run jobs as.
    let user = std::process::Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(user.stdout).unwrap().trim().to_owned();
    let import = ["import", "crontab", "--hosts", &tabs, "--user", &user];
    farm.ok(&[&import[..], &["--observe", "-o", &out]].concat());
    let text = std::fs::read_to_string(&out).unwrap();
    farm.ok(&["job", "apply", &out]);

    farm.eventually(
        "each node's instants are recorded",
        Duration::from_secs(60),
        async || {
            let (a, b) = (
                observed(&farm, "n1").await.len(),
                observed(&farm, "n2").await.len(),
            );
            (a >= 3 && b >= 3)
                .then_some(())
                .ok_or_else(|| format!("{a} and {b}"))
        },
    )
    .await;
    let made: i64 = farm
        .value(
            "SELECT (SELECT count(*) FROM farmhand.run_live) + (SELECT count(*) FROM farmhand.run_history
             WHERE attempt > 0 OR reason IS DISTINCT FROM 'observed')",
        )
        .await;
    assert_eq!(made, 0, "runs that could be claimed, or were");
    assert!(!ran.exists(), "it was executed");
    let listed = farm.ok(&["job", "ls"]);
    assert!(listed.contains("observing"), "{listed}");
    let explained = farm.ok(&["explain", "beat"]);
    assert!(explained.contains("nothing of it is executed"), "{explained}");
    let refused = farm.farmhand(&["job", "run", "beat"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("observes: nothing of it is executed"), "{said}");

    // What journalctl -o json would have, had cron run the same.
    let mut log = String::new();
    for node in ["n1", "n2"] {
        for at in observed(&farm, node).await {
            let _ = writeln!(
                log,
                r#"{{"_HOSTNAME":"{node}","__REALTIME_TIMESTAMP":"{at}000001","SYSLOG_IDENTIFIER":"CRON","MESSAGE":"({user}) CMD ({command})"}}"#
            );
        }
    }
    let journal = farm.dir().join("journal");
    std::fs::write(&journal, log).unwrap();
    let told = farm.ok(&["import", "verify", "--log", &journal.display().to_string()]);
    assert!(told.contains("Safe to switch"), "{told}");

    let without: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("observe "))
        .collect();
    assert!(without.len() < text.lines().count(), "{text}");
    std::fs::write(&out, without.join("\n")).unwrap();
    farm.ok(&["job", "apply", &out]);
    farm.becomes(
        Duration::from_secs(60),
        "SELECT count(DISTINCT running_at) FROM farmhand.run_history WHERE state = 'succeeded'",
        2_i64,
    )
    .await;
    assert!(ran.exists());
    farm.ok(&["job", "pause", "beat"]);
    farm.check().await;
}
