//! What there is to see and to try.

use std::path::Path;
use std::time::Duration;

use super::agents::{Agents, Dead};
use super::kin;
use crate::embedded::Embedded;
use farmhand_core::lease::{BootInstant, LeaseTiming};
use farmhand_core::text::shell_word;
use farmhand_node::LEASE_GRACE;

/// How long a dead node's runs may take to be elsewhere: promise 4 of the design.
fn takeover(ttl: Duration) -> f64 {
    ttl.as_secs_f64() * 1.1 + 2.0
}

/// How long commands go on without an agent or a database, at least, in tenths of a second: the lease was renewed up to one
/// interval ago, and they are told to end a grace before it is over.
pub(super) fn alone(ttl: Duration) -> f64 {
    let timing = LeaseTiming::at_least(ttl);
    let renewed = BootInstant::default();
    let told = timing
        .soft_deadline(renewed, LEASE_GRACE)
        .saturating_since(renewed);
    (told.saturating_sub(timing.renew_every()).as_secs_f64() * 10.0).floor() / 10.0
}

pub(super) fn print(dir: &Path, login: &str, agents: &Agents, server: &Embedded, ttl: Duration) {
    let program = std::env::current_exe().map_or("farmhand".to_owned(), |p| p.display().to_string());
    let alias = alias(&program);
    let url_file = shell_word(&dir.join("url").display().to_string());
    let mut text = String::from("\nThe farm runs.\n\n");
    for agent in agents.all() {
        let pid = agent.pid().map_or("-".to_owned(), |pid| pid.to_string());
        text += &format!(
            "  {:<8} pid {pid:<8} http://{}/metrics\n",
            agent.name, agent.listen
        );
    }
    text +=
        &format!("\nSee it in a browser; the address holds a token that may do everything:\n\n  {login}\n");
    let victim = agents.all().last();
    let name = victim.map_or("the agent", |agent| &agent.name);
    let pid = victim.and_then(|agent| agent.pid()).unwrap_or(0);
    let warden = kin::find("warden", &dir.join(name)).map_or(String::new(), |pid| pid.to_string());
    text += &format!(
        "
In another terminal:

  export FARMHAND_DATABASE_URL=$(cat {url_file})
  {alias}

  farmhand node ls                        the nodes and their leases
  farmhand job ls                         the example jobs, kept in {jobs}
  farmhand run ls                         what ran where, and how it ended
  farmhand run logs -f RUN                what it prints while it runs
  farmhand events                         what happened

  curl -H \"Authorization: Bearer $(cat {token_file})\" http://{first}/api/v1/me

The database, and a run submitted from SQL:

  psql {url}
  SELECT farmhand.submit('checksum-sweep');
  SELECT job_id, state, running_at, attempt FROM farmhand.run ORDER BY run_id DESC LIMIT 10;

A job that runs each row of a table:

  psql {url} -f {table}/outbox.sql
  farmhand job apply {table}/outbox.toml
  psql {url} -c \"INSERT INTO outbox (address, body) VALUES ('a@b', 'one')\"
  farmhand run logs outbox --key 1

Take a node away, and see its runs move within {takeover:.1} s:

  kill -9 {pid} {warden:<24}{name} and its warden: its commands die with them, other nodes
                                          run them again (attempt 2 in `farmhand run ls`)
  kill -9 {pid:<32}the agent alone: its commands go on for {alone:.1} s at least, and a new
                                          agent under the same name that is there by then adopts them
  kill -9 {postgres:<32}PostgreSQL: running jobs go on for {alone:.1} s at least, and nothing new
                                          starts until it answers again; here it is started again at once

Logs are {dir}/farm-*.log, the database lies in {home}.
Ctrl-C ends all of it; the next start finds its data again.
",
        token_file = shell_word(&dir.join("token").display().to_string()),
        first = agents
            .all()
            .first()
            .map_or_else(String::new, |agent| agent.listen.to_string()),
        table = shell_word(&dir.join("table").display().to_string()),
        jobs = dir.join("jobs").display(),
        url = shell_word(&server.place().url()),
        postgres = server.pid(),
        home = server.place().home().display(),
        takeover = takeover(ttl),
        alone = alone(ttl),
        dir = dir.display(),
    );
    super::say(&text);
}

/// The shell reads it twice: here, and where the alias is used.
fn alias(program: &str) -> String {
    format!("alias farmhand={}", shell_word(&shell_word(program)))
}

/// An agent that dies stays dead: what happens to its runs is worth seeing.
pub(crate) fn print_death(dead: &Dead, ttl: Duration) {
    super::say(&told_death(dead, ttl));
}

fn told_death(dead: &Dead, ttl: Duration) -> String {
    let runs = if dead.status.success() {
        "It left in order and runs nothing any more.".to_owned()
    } else {
        format!(
            "Unless it is started again within {:.1} s, its runs are on\nother nodes within {:.1} s: see `farmhand run ls` and `farmhand events`.",
            alone(ttl),
            takeover(ttl)
        )
    };
    format!(
        "
{name} (pid {pid}) ended: {status}. {runs} To start it again:

  {command_line}
",
        name = dead.name,
        pid = dead.pid,
        status = dead.status,
        command_line = dead.command_line,
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn the_time_alone_ends_before_commands_are_told_to_end_by_the_oldest_lease() {
        for seconds in [3, 6, 20, 60, 600] {
            let ttl = Duration::from_secs(seconds);
            let timing = LeaseTiming::at_least(ttl);
            let renewed = BootInstant::default();
            let soft = timing
                .soft_deadline(renewed, LEASE_GRACE)
                .saturating_since(renewed);
            let told = alone(ttl) + timing.renew_every().as_secs_f64();
            assert!(
                (soft.as_secs_f64() - told) < 0.1 && told <= soft.as_secs_f64(),
                "{ttl:?}: {told}"
            );
        }
        assert!((alone(Duration::from_secs(6)) - 2.0).abs() < 0.01);
    }

    #[test]
    fn an_alias_for_a_path_with_spaces_is_one_word_when_it_is_used() {
        assert_eq!(alias("/a/farmhand"), "alias farmhand=/a/farmhand");
        let dir = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        let program = dir.path().join("farmhand");
        std::os::unix::fs::symlink("/bin/echo", &program).unwrap();
        let lines = format!("{}\nfarmhand it runs\n", alias(&program.display().to_string()));
        let out = std::process::Command::new("sh")
            .args(["-c", &lines])
            .output()
            .unwrap();
        assert_eq!(out.stdout, b"it runs\n", "{out:?}");
    }

    #[test]
    fn of_an_agent_that_left_in_order_no_takeover_is_promised() {
        let died = |status: i32| Dead {
            name: "farm-2".to_owned(),
            pid: 7,
            status: ExitStatus::from_raw(status),
            log: "log".into(),
            command_line: "farmhand agent".to_owned(),
        };
        let told = |status| told_death(&died(status), Duration::from_secs(6));
        assert!(told(0).contains("left in order") && !told(0).contains("other nodes"));
        assert!(told(libc::SIGKILL).contains("started again within 2.0 s"));
    }
}
