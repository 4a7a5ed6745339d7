//! What others wrote steers neither the terminal nor the shell of whoever looks.

use farmhand_tests::farm::{Farm, SOON};

const TITLE: &str = "\u{1b}]0;mine\u{7}";

fn plain(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_repeat_no_escape_that_others_wrote() {
    let farm = Farm::new()
        .agents(0)
        .jobs("[job.a]\ncommand = 'true'\n")
        .start()
        .await;
    let unknown = farm.farmhand(&["job", "show", &format!("x{TITLE}")]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(plain(&unknown.stderr).contains("x\u{fffd}]0;mine"));
    // A reason that somebody with a login made up.
    let waits = farm
        .command(&["job", "run", "a", "--wait"])
        .spawn()
        .expect("it starts");
    let ended = "WITH over AS (DELETE FROM farmhand.run_live r WHERE r.job_id = 'a' RETURNING r)
                 INSERT INTO farmhand.run_history SELECT h.* FROM over o,
                     LATERAL farmhand.ended(o.r, 'failed', E'no\\x1b]0;mine\\x07', 'holder') h";
    farm.eventually("the run is over", SOON, async || {
        match farm.sql.exec_with(ended, &[]).await {
            0 => Err("no run yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let said = waits.wait_with_output().expect("it ends");
    assert_eq!(said.status.code(), Some(10));
    assert!(plain(&said.stderr).contains("]0;mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_wrote_begins_no_line_of_its_own() {
    let farm = Farm::new()
        .agents(0)
        .jobs("[job.a]\ncommand = 'true'\n")
        .start()
        .await;
    let forged = "2030-01-01 00:00:00Z error forged";
    farm.exec(&format!(
        "INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
                 VALUES (now(), 'notify_failed', 'info', 'a', jsonb_build_object('why', E'x\\n{forged}'))"
    ))
    .await;
    let run = farm.farmhand(&["job", "run", "a"]);
    let run = String::from_utf8_lossy(&run.stdout).trim().to_owned();
    let ended = format!(
        "WITH over AS (DELETE FROM farmhand.run_live r WHERE r.job_id = 'a' RETURNING r)
         INSERT INTO farmhand.run_history SELECT h.* FROM over o,
             LATERAL farmhand.ended(o.r, 'failed', E'no\\n{forged}', 'holder') h"
    );
    farm.exec(&ended).await;
    let shown = [
        vec!["events"],
        vec!["run", "show", &run],
        vec!["run", "ls"],
        vec!["explain", &run],
        vec!["job", "history", "a"],
    ];
    let mut quoted = 0;
    for command in shown {
        let out = farm.farmhand(&command);
        let said = plain(&[out.stdout, out.stderr].concat());
        quoted += usize::from(said.contains("forged"));
        let begins = said.lines().any(|line| line.starts_with(forged));
        assert!(!begins, "{command:?}: {said}");
    }
    assert!(quoted >= 3, "{quoted} of them quote it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_a_shell_would_obey_is_not_completed() {
    let farm = Farm::new()
        .agents(0)
        .jobs("[job.plain]\ncommand = 'true'\n")
        .start()
        .await;
    farm.exec(
        "INSERT INTO farmhand.job_revision SELECT 'plain$(touch pwned)', rev, spec, source, applied_by, applied_at
             FROM farmhand.job_revision;
         INSERT INTO farmhand.job (job_id, rev, seq, enabled, scheduled, overlap, on_lost, priority, instances, each_node, source, applied_by, applied_at)
             SELECT 'plain$(touch pwned)', rev, seq, enabled, scheduled, overlap, on_lost, priority, instances, each_node, source, applied_by, applied_at FROM farmhand.job"
    ).await;
    // The database is asked for no longer than a second, and a busy machine may need more.
    let offered = farm
        .eventually("the job is offered", SOON, async || {
            let offered = farm
                .command(&["--", "farmhand", "job", "show", "pl"])
                .env("_FARMHAND_COMPLETE", "bash")
                .env("_CLAP_COMPLETE_INDEX", "3")
                .env("_CLAP_COMPLETE_COMP_TYPE", "9")
                .env("_CLAP_COMPLETE_SPACE", "true")
                .env("_CLAP_IFS", "\n")
                .output()
                .expect("it answers");
            let offered = String::from_utf8_lossy(&offered.stdout).into_owned();
            match offered.contains("plain") {
                true => Ok(offered),
                false => Err(offered),
            }
        })
        .await;
    assert!(!offered.contains("touch"), "{offered:?}");
}
