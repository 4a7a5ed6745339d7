//! What is still there when a farm has come to rest, and what its agents and wardens said of themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::pg::Client;

use super::field::{Field, descriptors};
use super::oracle::site_of;
use super::place::Place;
use super::table;
use crate::farm::Agent;
use crate::processes::Process;

/// Of one agent at rest, at the most: one of each kind of connection (`agent/node/src/agent/connections.rs`), and one more that
/// is about to be closed.
const SESSIONS: i64 = 6;

/// What a farm at rest holds on to; compared between its beginning and its end.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    pub descriptors: BTreeMap<String, usize>,
    pub sessions: i64,
}

/// Counts descriptors of agents and sessions of the database.
pub async fn holdings(field: &Field, client: &Client) -> Holdings {
    let mut found = Holdings::default();
    for site in &field.sites {
        let agent = site.agent.lock().await;
        if agent.is_running() {
            found
                .descriptors
                .insert(site.name.clone(), descriptors(agent.pid()));
        }
    }
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'farm' AND pid <> pg_backend_pid()";
    if let Ok(row) = client.query_one(sql, &[]).await {
        found.sessions = row.get(0);
    }
    found
}

/// Everything that should not be there any more, each with a sentence.
pub async fn left(field: &Field, client: &Client, before: &Holdings) -> Vec<String> {
    let mut left = Vec::new();
    let now = holdings(field, client).await;
    for (name, count) in &now.descriptors {
        let first = before.descriptors.get(name).copied().unwrap_or(*count);
        if *count > first + 10 {
            left.push(format!("{name} has {count} descriptors open, {first} at first"));
        }
    }
    let some = i64::try_from(field.sites.len()).expect("a few agents");
    let names: Vec<&str> = field.sites.iter().map(|site| site.name.as_str()).collect();
    let sessions = sessions(client).await;
    // A pooler's own bear the names of whoever used them last.
    if !field.pooled {
        left.extend(too_many_sessions(&names, &sessions));
    }
    if now.sessions > some * SESSIONS {
        let whose: Vec<String> = sessions.iter().map(Sessions::told).collect();
        let (count, first, whose) = (now.sessions, before.sessions, whose.join("; "));
        left.push(format!("{count} sessions, {first} at first: {whose}"));
    }
    let of_a_run = |p: &&Process| p.environment.iter().any(|e| e.starts_with("FARMHAND_RUN="));
    let processes = field.processes();
    for process in processes.iter().filter(of_a_run) {
        left.push(format!("process {} of a run: {}", process.pid, process.command));
    }
    for site in &field.sites {
        let agent = site.agent.lock().await;
        left.extend(too_many(&site.name, &agent));
        left.extend(strangers(&site.name, &agent));
        left.extend(attempts_on_disk(&site.name, &agent));
    }
    let nodes = format!("SELECT count(*) - {some} FROM farmhand.node");
    for (what, sql) in [
        ("live runs", "SELECT count(*) FROM farmhand.run_live"),
        ("nodes too many", nodes.as_str()),
        (
            "checkpoints without a run",
            "SELECT count(*) FROM farmhand.progress p WHERE NOT EXISTS
             (SELECT FROM farmhand.run_live r WHERE r.run_id = p.run_id)",
        ),
        ("unsettled triggers", "SELECT count(*) FROM farmhand.triggering"),
        ("unwritten results", "SELECT count(*) FROM farmhand.row_result"),
        (
            "prepared or idle transactions",
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'farm' AND state LIKE 'idle in transaction%'
             AND state_change < now() - interval '20 s'",
        ),
        table::LEFT[0],
        table::LEFT[1],
    ] {
        match client.query_one(sql, &[]).await {
            Ok(row) => {
                let count: i64 = row.get(0);
                if count != 0 {
                    left.push(format!("{count} {what}"));
                }
            }
            Err(e) => left.push(format!("{what}: {e}")),
        }
    }
    left
}

/// Sessions of one name, and for how long the oldest has done nothing.
struct Sessions {
    name: String,
    count: i64,
    idle: Option<String>,
}

impl Sessions {
    fn told(&self) -> String {
        let idle = self.idle.as_deref().unwrap_or("no time");
        format!("{} x{}, idle for {idle}", self.name, self.count)
    }
}

async fn sessions(client: &Client) -> Vec<Sessions> {
    let sql = "SELECT application_name, count(*), max(date_trunc('second', now() - state_change))::text
        FROM pg_stat_activity WHERE usename = 'farm' AND pid <> pg_backend_pid() GROUP BY 1 ORDER BY 1";
    let rows = client.query(sql, &[]).await.unwrap_or_default();
    let sessions = rows.iter().map(|row| Sessions {
        name: row.get(0),
        count: row.get(1),
        idle: row.get(2),
    });
    sessions.collect()
}

/// More than an agent may have, or any of an address that is no agent's any more.
fn too_many_sessions(agents: &[&str], found: &[Sessions]) -> Vec<String> {
    let may_have = |found: &&Sessions| {
        let address = found.name.strip_prefix("farmhand ").unwrap_or_default();
        let known = agents.contains(&site_of(address));
        !known || (agents.contains(&address) && found.count <= SESSIONS)
    };
    let more = found.iter().filter(|found| !may_have(found));
    more.map(|found| format!("too many sessions: {}", found.told()))
        .collect()
}

/// A warden or a reaper that nobody needs any more.
fn too_many(node: &str, agent: &Agent) -> Vec<String> {
    let kinds = [("wardens", agent.wardens()), ("reapers", agent.reapers())];
    let more = kinds.into_iter().filter(|(_, found)| found.len() > 1);
    more.map(|(what, found)| format!("{node} has {} {what}: {found:?}", found.len()))
        .collect()
}

/// Whoever lives in an agent's network and is neither the agent nor one of its wardens and reapers: what a job left, with
/// whatever environment, and process 1 of a PID namespace.
fn strangers(node: &str, agent: &Agent) -> Vec<String> {
    let keepers = agent.wardens().into_iter().chain(agent.reapers());
    let mut known: Vec<i32> = keepers.map(|p| p.pid).collect();
    known.extend(agent.is_running().then(|| agent.pid()));
    let there = agent.place.iter().flat_map(Place::inhabitants);
    there
        .filter(|p| !known.contains(&p.pid))
        .map(|p| format!("process {} in the network of {node}: {}", p.pid, p.command))
        .collect()
}

/// Attempts that an agent keeps a directory of, although all of them are recorded.
fn attempts_on_disk(node: &str, agent: &Agent) -> Vec<String> {
    let of_a_warden = |name: &str| name == "runs";
    let mut left = Vec::new();
    for runs in entries(agent.place.as_ref().map(Place::state)) {
        if of_a_warden(&name(&runs)) {
            for attempt in entries(Some(runs)) {
                left.push(format!(
                    "{node} keeps the directory of attempt {}",
                    name(&attempt)
                ));
            }
        }
    }
    left
}

fn name(path: &std::path::Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn entries(dir: Option<PathBuf>) -> Vec<PathBuf> {
    let found = dir.and_then(|dir| std::fs::read_dir(dir).ok());
    found.into_iter().flatten().flatten().map(|e| e.path()).collect()
}

/// Lines of the logs of agents and wardens in which one says that it panicked.
pub async fn panics(field: &Field) -> Vec<String> {
    let mut panics = Vec::new();
    for site in &field.sites {
        let agent = site.agent.lock().await;
        let of_wardens = entries(agent.place.as_ref().map(|place| place.state().join("warden")))
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "log"))
            .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned());
        for text in std::iter::once(agent.log()).chain(of_wardens) {
            let said = text.lines().filter(|line| line.contains("panicked at"));
            panics.extend(said.map(|line| format!("{}: {line}", site.name)));
        }
    }
    panics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_a_few_sessions_and_an_address_that_nobody_has_none() {
        let of = |name: &str, count: i64| {
            let name = name.to_owned();
            let found = Sessions {
                name,
                count,
                idle: None,
            };
            too_many_sessions(&["n1", "n2"], &[found]).len()
        };
        assert_eq!(
            [of("farmhand n1", 6), of("farmhand cli", 9), of("", 9)],
            [0, 0, 0]
        );
        assert_eq!([of("farmhand n2", 7), of("farmhand n2-b", 1)], [1, 1]);
    }
}
