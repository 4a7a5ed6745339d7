//! Marks that the engine might miss.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use farmhand_tests::bin::farmhand;
use farmhand_tests::wait::eventually;
use tempfile::TempDir;

use super::fixture::{command, path, text, write_script};

fn scripts(daemon: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mark = format!("#!/bin/sh\n# PROVIDE: net\n{daemon}\n");
    write_script(dir.path(), "daemon", &mark);
    let client = "#!/bin/sh\n# PROVIDE: client\n# REQUIRE: net\necho the client ran\n";
    write_script(dir.path(), "client", client);
    dir
}

#[test]
fn a_mark_is_seen_on_a_machine_without_inotify() {
    let bin = farmhand().display();
    let until_client = "until [ -e \"$FARMHAND_DEPS/.status/client\" ]; do sleep 0.05; done";
    let dir = scripts(&format!("{bin} flow mark net; {until_client}"));
    let without =
        format!("echo 0 > /proc/sys/user/max_inotify_instances && exec {bin} flow run --timeout 20s \"$0\"");
    let out = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", &without, path(&dir)])
        .stdin(Stdio::null())
        .output()
        .expect("unshare, of util-linux");
    let said = text(&out.stdout);
    assert!(said.contains("the client ran"), "{said}{}", text(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

#[test]
fn a_mark_counts_before_the_end_of_the_task_that_made_it() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(name);
    let (pid, go) = (file("pid"), file("go"));
    let dir = scripts(&format!(
        "echo $$ > {0}.new; mv {0}.new {0}; until [ -e {1} ]; do sleep 0.02; done; {2} flow mark net; exit 1",
        pid.display(),
        go.display(),
        farmhand().display()
    ));
    let mut engine = command(&["run", path(&dir)]);
    let engine = engine
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid: i32 = eventually("the daemon runs", Duration::from_secs(20), || {
        let read = fs::read_to_string(&pid).map_err(|e| e.to_string())?;
        Ok(read.trim().parse().expect("a number"))
    });
    let signal = |signal| {
        let engine = i32::try_from(engine.id()).unwrap();
        // SAFETY: a child of this test, which waits for it only at the end.
        assert_eq!(unsafe { libc::kill(engine, signal) }, 0);
    };
    signal(libc::SIGSTOP);
    fs::write(&go, "").unwrap();
    eventually("the daemon ends", Duration::from_secs(20), || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|e| e.to_string())?;
        stat.contains(") Z ").then_some(()).ok_or(stat)
    });
    signal(libc::SIGCONT);
    let out = engine.wait_with_output().unwrap();
    let (said, err) = (text(&out.stdout), text(&out.stderr));
    assert!(said.contains("the client ran"), "{said}{err}");
    assert!(!err.contains("cannot mark"), "{err}");
}
