//! What there is to see and to try.

use std::path::Path;
use std::time::Duration;

use super::agents::{Agents, Dead};
use super::kin;
use farmhand_core::text::shell_word;

/// How long a dead node's runs may take to be elsewhere: promise 4 of the design.
fn takeover(ttl: Duration) -> f64 {
    ttl.as_secs_f64() * 1.1 + 2.0
}

pub(super) fn print(dir: &Path, url: &str, login: &str, agents: &Agents, postgres: i32, ttl: Duration) {
    let program = std::env::current_exe().map_or("farmhand".to_owned(), |p| p.display().to_string());
    let program = shell_word(&program);
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
    let warden = kin::warden(&dir.join(name)).map_or(String::new(), |pid| pid.to_string());
    text += &format!(
        "
In another terminal:

  export FARMHAND_DATABASE_URL=$(cat {url_file})
  alias farmhand={program}

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
  kill -9 {pid:<32}the agent alone: its commands go on, and a new agent under the same
                                          name adopts them if it is there within {ttl:.1} s
  kill -9 {postgres:<32}PostgreSQL: running jobs go on, and nothing new starts until it
                                          answers again; here it is started again at once

Logs are {dir}/farm-*.log. Ctrl-C ends all of it; the next start finds its data again.
",
        token_file = shell_word(&dir.join("token").display().to_string()),
        first = agents
            .all()
            .first()
            .map_or_else(String::new, |agent| agent.listen.to_string()),
        table = shell_word(&dir.join("table").display().to_string()),
        jobs = dir.join("jobs").display(),
        url = shell_word(url),
        takeover = takeover(ttl),
        ttl = ttl.as_secs_f64(),
        dir = dir.display(),
    );
    super::say(&text);
}

/// An agent that dies stays dead: what happens to its runs is worth seeing.
pub(crate) fn print_death(dead: &Dead, ttl: Duration) {
    super::say(&format!(
        "
{name} (pid {pid}) ended: {status}. Unless it is started again before its lease is over, its runs are on
other nodes within {takeover:.1} s: see `farmhand run ls` and `farmhand events`. To start it again:

  {command_line}
",
        name = dead.name,
        pid = dead.pid,
        status = dead.status,
        takeover = takeover(ttl),
        command_line = dead.command_line,
    ));
}
