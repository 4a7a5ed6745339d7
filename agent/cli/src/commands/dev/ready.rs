//! Waiting until every agent has its lease.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::agents::{Agent, Agents, Dead};
use super::signals::{Event, Signals};
use crate::commands::Failure;

/// A node whose last farm was killed has to wait until its old lease is over; more than that is an error. The shortest bound on a start.
const BOUND: Duration = Duration::from_secs(90);

/// Returns false when a signal came first.
pub(super) fn wait(agents: &mut Agents, signals: &Signals, ttl: Duration) -> Result<bool, Failure> {
    let bound = bound(ttl);
    let deadline = Instant::now() + bound;
    super::say(&format!("starting {}", names(agents.all().iter())));
    loop {
        let mut late = agents
            .all()
            .iter()
            .filter(|agent| !holds_session(agent.listen))
            .peekable();
        if late.peek().is_none() {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Err(
                Failure::broken(format!("no lease within {bound:?}: {}", names(late)))
                    .next(format!("look into {}", agents.dir().join("farm-*.log").display())),
            );
        }
        if let Some(dead) = agents.reap().first() {
            return Err(ended(dead));
        }
        if signals.wait(Duration::from_millis(100)) == Event::End {
            return Ok(false);
        }
    }
}

fn bound(ttl: Duration) -> Duration {
    BOUND.max(ttl * 11 / 10 + Duration::from_secs(30))
}

fn names<'a>(agents: impl Iterator<Item = &'a Agent>) -> String {
    agents
        .map(|agent| agent.name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Asks the agent's readiness check.
fn holds_session(at: SocketAddr) -> bool {
    let ask = || -> io::Result<bool> {
        let bound = Duration::from_millis(500);
        let mut stream = TcpStream::connect_timeout(&at, bound)?;
        stream.set_read_timeout(Some(bound))?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(status.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

fn ended(dead: &Dead) -> Failure {
    let said = std::fs::read_to_string(&dead.log).unwrap_or_default();
    let mut last: Vec<&str> = said.lines().rev().take(8).collect();
    last.reverse();
    Failure::broken(format!(
        "{} ended before it was ready: {}",
        dead.name, dead.status
    ))
    .why(last.join("\n"))
    .next(format!("look into {}", dead.log.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_outlasts_the_lease_that_a_killed_farm_left() {
        assert_eq!(bound(Duration::from_secs(6)), BOUND);
        assert!(bound(Duration::from_secs(3600)) > Duration::from_secs(3960));
    }
}
