//! `farmhand dev` as a new user meets it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use farmhand_tests::bin::farmhand;
use farmhand_tests::wait::eventually;
use tempfile::TempDir;

use super::embedded::scratch;
use super::running::*;

#[tokio::test(flavor = "multi_thread")]
async fn within_a_minute_every_example_has_succeeded_and_every_view_says_so() {
    let home = scratch();
    let dev = Dev::start(&home);
    let client = dev.sql().await;
    let handle = tokio::runtime::Handle::current();
    let done = eventually("every example has succeeded", Duration::from_secs(60), || {
        let done = tokio::task::block_in_place(|| handle.block_on(successes(&client)));
        if done.is_empty() || done.values().any(|n| *n == 0) {
            Err(format!("{done:?}"))
        } else {
            Ok(done)
        }
    });
    let examples = farmhand::examples::fitted("", home.path()).len();
    assert_eq!(done.len(), examples, "{done:?}");

    let retried = client.value::<String>(
        "SELECT max(attempt)::text FROM farmhand.run WHERE job_id = 'flaky-import' AND state = 'succeeded'",
    );
    assert_eq!(retried.await, "2", "the flaky one needs its retry");

    let nodes = dev.ask(&["node", "ls"]);
    for name in ["farm-1", "farm-2", "farm-3"] {
        assert!(nodes.contains(name), "{nodes}");
    }
    let runs = dev.ask(&["run", "ls"]);
    assert!(runs.contains("heartbeat") && runs.contains("succeeded"), "{runs}");
    let run = client.value::<String>("SELECT max(run_id)::text FROM farmhand.run WHERE job_id = 'checksum-sweep' AND state = 'succeeded'")
    .await;
    let log = dev.ask(&["run", "logs", &run]);
    assert!(log.contains("files under /etc"), "{log}");
    let metrics = http(dev.port, "/metrics");
    let finished = metrics.lines().find(|line| {
        line.starts_with("farmhand_runs_finished_total")
            && line.contains("succeeded")
            && !line.ends_with(" 0")
    });
    assert!(finished.is_some(), "{metrics}");
    for line in [
        &dev.url(),
        "farmhand.submit('checksum-sweep')",
        "kill -9 ",
        "/metrics",
    ] {
        assert!(dev.said().contains(line), "{line} in\n{}", dev.said());
    }

    let before = client
        .value::<String>(
            "SELECT min(run_id)::text FROM farmhand.run WHERE state = 'succeeded' AND kind <> 'continuous'",
        )
        .await;
    drop(client);
    dev.end(libc::SIGINT);

    let again = Dev::start(&home);
    let client = again.sql().await;
    // A run before it may have succeeded since.
    let after = client
        .value::<String>(&format!("SELECT state FROM farmhand.run WHERE run_id = {before}"))
        .await;
    assert_eq!(after, "succeeded", "the second start finds its data");
    again.end(libc::SIGTERM);
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_takes_along_what_killed_agents_left_and_what_was_started_by_hand() {
    let home = scratch();
    let dev = Dev::start(&home);
    // A job that hides from its parents, in the middle of its run on every node.
    let job = home.path().join("hiding.toml");
    fs::write(
        &job,
        "[job.hiding]\nrun_on = \"each-node\"\nschedule = \"@every 5s\"\noverlap = \"skip\"\ngrace = \"60s\"\n\
         command = \"trap '' TERM; setsid sleep 3600 & (setsid sh -c 'setsid sleep 3601 &') ; sleep 3602\"\n",
    )
    .unwrap();
    dev.ask(&["job", "apply", &job.display().to_string()]);
    eventually("the job hides on every node", Duration::from_secs(20), || {
        let hidden = dev
            .processes()
            .iter()
            .filter(|p| p.command == "sleep 3601")
            .count();
        (hidden >= 3)
            .then_some(())
            .ok_or_else(|| format!("{hidden} of 3"))
    });

    let first = dev.agent("farm-1");
    kill(first.pid, libc::SIGKILL);
    kill(dev.agent("farm-3").pid, libc::SIGKILL);
    let line = eventually(
        "its death is shown, with the way back",
        Duration::from_secs(20),
        || {
            let said = dev.said();
            let shown = said.contains(&format!("farm-1 (pid {}) ended", first.pid));
            let line = said
                .lines()
                .find(|l| l.contains("FARMHAND_DATABASE_URL='") && l.contains("--node-name farm-1 "));
            line.filter(|_| shown).map(|l| l.trim().to_owned()).ok_or(said)
        },
    );
    let mut by_hand = Command::new("/bin/sh")
        .args(["-c", &format!("exec env {line}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the agent is back", Duration::from_secs(20), || {
        (http(dev.port, "/readyz").starts_with("HTTP/1.0 200"))
            .then_some(())
            .ok_or_else(String::new)
    });

    dev.end(libc::SIGINT);
    by_hand.wait().unwrap();
}

#[test]
fn sigalrm_is_passed_on_to_the_agents_and_stray_signals_change_nothing() {
    let home = scratch();
    let mut dev = Dev::start(&home);
    let agent = dev.agent("farm-1").pid;
    // Stopped, so that what it is sent stays to be seen.
    kill(agent, libc::SIGSTOP);
    // Of two signals that wait the kernel delivers the lower one first.
    eventually("the agent is stopped", Duration::from_secs(20), || {
        let status = fs::read_to_string(format!("/proc/{agent}/status")).unwrap_or_default();
        status.contains("\nState:\tT").then_some(()).ok_or(status)
    });
    kill(dev.pid(), libc::SIGALRM);
    eventually("the agent has been sent SIGALRM", Duration::from_secs(20), || {
        let status = fs::read_to_string(format!("/proc/{agent}/status")).unwrap_or_default();
        let pending = status.lines().find_map(|l| l.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        let sent = pending.is_some_and(|set| set & (1 << (libc::SIGALRM - 1)) != 0);
        assert!(status.contains("\nSigBlk:\t0000000000000000\n"), "{status}");
        if sent { Ok(()) } else { Err(status) }
    });
    kill(agent, libc::SIGCONT);
    for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGPROF, libc::SIGRTMIN()] {
        kill(dev.pid(), signal);
    }
    eventually("the farm goes on", Duration::from_secs(20), || {
        assert_eq!(dev.child.try_wait().unwrap(), None, "{}", dev.said());
        (http(dev.port, "/readyz").starts_with("HTTP/1.0 200"))
            .then_some(())
            .ok_or_else(String::new)
    });
    dev.end(libc::SIGINT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_postgresql_is_started_again_and_running_jobs_go_on() {
    let home = scratch();
    // Longer than PostgreSQL takes to start again.
    let dev = Dev::start_with(&home, &["--lease-ttl", "60s"]);
    dev.ask(&["job", "apply", &long_job(&home)]);
    let run = dev.ask(&["job", "run", "long"]);
    let run: i64 = run.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    let sql = format!("SELECT state, attempt FROM farmhand.run WHERE run_id = {run}");
    let state = async || {
        let row = dev.sql().await.query_one(&sql, &[]).await.unwrap();
        (row.get::<_, String>(0), row.get::<_, i32>(1))
    };
    let handle = tokio::runtime::Handle::current();
    let until = |wanted: &str| {
        eventually(&format!("the run is {wanted}"), Duration::from_secs(20), || {
            let now = tokio::task::block_in_place(|| handle.block_on(state()));
            (now == (wanted.to_owned(), 1))
                .then_some(())
                .ok_or_else(|| format!("{now:?}"))
        });
    };
    until("running");
    let file = fs::read_to_string(dev.dir.join("postgres/cluster/postmaster.pid")).unwrap();
    let postgres: i32 = file.lines().next().unwrap().parse().unwrap();
    assert!(
        dev.said().contains(&format!("kill -9 {postgres}")),
        "{}",
        dev.said()
    );
    kill(postgres, libc::SIGKILL);
    eventually("PostgreSQL is back", START, || {
        let said = dev.said();
        said.contains("PostgreSQL answers again.")
            .then_some(())
            .ok_or(said)
    });
    until("running");
    fs::write(home.path().join("go on"), "").unwrap();
    until("succeeded");
    dev.end(libc::SIGINT);
}

/// A job that ends when the test says so.
fn long_job(home: &TempDir) -> String {
    let (file, go_on) = (home.path().join("long.toml"), home.path().join("go on"));
    let wait = format!("until test -e '{}'; do sleep 0.1; done", go_on.display());
    fs::write(
        &file,
        format!("[job.long]\ncommand = ['sh', '-c', \"\"\"{wait}\"\"\"]\n"),
    )
    .unwrap();
    file.display().to_string()
}

#[test]
fn a_farm_that_was_killed_ends_by_itself_and_starts_again() {
    let home = scratch();
    let mut dev = Dev::start(&home);
    dev.child.kill().unwrap();
    dev.child.wait().unwrap();
    eventually("nothing of it is left", Duration::from_secs(20), || {
        let left = dev.processes();
        left.is_empty().then_some(()).ok_or_else(|| format!("{left:#?}"))
    });
    Dev::start(&home).end(libc::SIGINT);
}

#[test]
fn a_killed_farm_starts_again_when_the_agents_that_still_end_have_ended() {
    let home = scratch();
    let mut dev = Dev::start(&home);
    let agent = dev.agent("farm-1").pid;
    // It keeps its port and its state directory until it goes on.
    kill(agent, libc::SIGSTOP);
    dev.child.kill().unwrap();
    dev.child.wait().unwrap();
    let said = fs::File::create(&dev.said).unwrap();
    let mut again = dev.command();
    again.stdout(said.try_clone().unwrap()).stderr(said);
    dev.child = again.spawn().unwrap();
    let says = |dev: &mut Dev, what: &str| {
        eventually(what, START, || {
            assert_eq!(dev.child.try_wait().unwrap(), None, "{}", dev.said());
            dev.said().contains(what).then_some(()).ok_or_else(|| dev.said())
        });
    };
    says(&mut dev, "waiting for the agents of an earlier farm to end");
    kill(agent, libc::SIGCONT);
    says(&mut dev, "The farm runs.");
    dev.end(libc::SIGINT);
}

#[test]
fn a_farm_whose_terminal_is_gone_still_ends_whole() {
    let home = scratch();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut dev = Dev::start(&home);
    // The same farm again, with nobody at the other end of its output.
    kill(dev.pid(), libc::SIGINT);
    dev.child.wait().unwrap();
    let mut command = dev.command();
    let child = command
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn()
        .unwrap();
    drop(command);
    dev.child = child;
    // The whole tour: an agent that ends before it ends the start.
    let mut said = BufReader::new(reader).lines();
    let ready = said.any(|line| line.unwrap().contains("Ctrl-C ends all of it"));
    assert!(ready, "the farm ended");
    kill(dev.agent("farm-2").pid, libc::SIGKILL);
    drop(said);
    dev.end(libc::SIGHUP);
}

#[test]
fn a_second_farm_in_the_same_directory_and_a_taken_port_are_refused() {
    let home = scratch();
    let dev = Dev::start(&home);
    let again = |port: u16, data: PathBuf| {
        let port = port.to_string();
        Command::new(farmhand())
            .args(["dev", "--port", &port, "--data"])
            .arg(data)
            .output()
            .unwrap()
    };
    let same = again(0x7fff, dev.dir.clone());
    assert_eq!(same.status.code(), Some(4));
    let said = String::from_utf8_lossy(&same.stderr).into_owned();
    assert!(
        said.contains("runs in") && said.contains(&dev.pid().to_string()),
        "{said}"
    );

    let other = again(dev.port, home.path().join("other"));
    assert_eq!(other.status.code(), Some(1));
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(
        said.contains(&format!("127.0.0.1:{}", dev.port)) && said.contains("--port"),
        "{said}"
    );
    dev.end(libc::SIGINT);
}

/// The answer to a GET, with its headers.
fn http(port: u16, path: &str) -> String {
    use std::io::{Read, Write};
    let mut answer = String::new();
    if let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) {
        let asked = stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
        let _ = asked.and_then(|()| stream.read_to_string(&mut answer));
    }
    answer
}

/// The commands that it prints, as they stand there.
#[test]
fn the_printed_commands_make_the_table_of_the_outbox_and_run_a_row() {
    let home = scratch();
    let dev = Dev::start(&home);
    let said = dev.said();
    let block = said.split("each row of a table:\n\n").nth(1).unwrap();
    let block = block.split("\n\n").next().unwrap();
    let lines: Vec<&str> = block.lines().map(str::trim).collect();
    let shell = |line: &str| {
        let ours = farmhand().parent().unwrap().display().to_string();
        let path = format!("{ours}:{}", std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PATH", path);
        shell.env("FARMHAND_DATABASE_URL", dev.url());
        shell.stdin(Stdio::null()).output().unwrap()
    };
    for line in &lines[..3] {
        let out = shell(line);
        assert!(out.status.success(), "{line}: {out:?}");
    }
    eventually("the row is sent", START, || {
        let out = shell(lines[3]);
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        (said == "sending to a@b: one\n")
            .then_some(())
            .ok_or(format!("{out:?}"))
    });
}
