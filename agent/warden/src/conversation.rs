//! Connections: who is the agent now, whose requests count, who is told what.

use std::io;

use super::log;
use super::server::{Connection, OUT_LOW};
use super::warden::Warden;
use farmhand_os::clock::{boottime_ns, wall_ms};
use farmhand_warden_client::wire::*;

/// The agent, one that it supersedes, and a few that only ask who is there.
const MAX_CONNECTIONS: usize = 16;

impl Warden {
    pub(super) fn accept(&mut self) {
        while let Some(stream) = self.next_stream() {
            if self.connections.len() >= MAX_CONNECTIONS {
                // Strangers make room; the agent never does.
                let stranger = self.connections.values().find(|c| !c.agent).map(|c| c.number);
                if let Some(number) = stranger {
                    self.hang_up(number);
                }
            }
            let number = self.next_connection;
            self.next_connection = self.next_connection.wrapping_add(1);
            match Connection::accept(stream, number, &self.poller) {
                Ok(Some(connection)) => {
                    self.connections.insert(number, connection);
                }
                Ok(None) => log(format_args!("warden: another user tried to connect")),
                Err(error) => log(format_args!("warden: a connection failed: {error}")),
            }
        }
    }

    fn next_stream(&self) -> Option<std::os::unix::net::UnixStream> {
        match self.listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    log(format_args!("warden: accept: {error}"));
                }
                None
            }
        }
    }

    pub(super) fn on_connection(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if !connection.fill() {
            return self.hang_up(number);
        }
        loop {
            let Some(connection) = self.connections.get_mut(&number) else {
                return;
            };
            match connection.request() {
                Ok(Some(FromAgent { seq, request })) => {
                    let result = self.answer(number, request);
                    let Some(connection) = self.connections.get_mut(&number) else {
                        return;
                    };
                    if connection.send(&FromWarden::Reply { seq, result }).is_err() {
                        return self.hang_up(number);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    log(format_args!("warden: dropping a connection: {error}"));
                    return self.hang_up(number);
                }
            }
        }
        self.flush(number);
    }

    fn answer(&mut self, number: u32, request: Request) -> Result<Reply, Refusal> {
        match &request {
            Request::Hello {
                protocol,
                agent_pid,
                expect,
                address,
            } => {
                // Before anything is taken from the agent that is here.
                self.serves(*expect, address)?;
                self.hello(number, *protocol, *agent_pid)?;
            }
            Request::Identify => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.open_for_notices = connection.agent;
                }
            }
            Request::Hold => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.held = true;
                }
            }
            _ if self.connections.get(&number).is_some_and(|c| c.agent) => {}
            _ => return Err(Refusal::NoHello),
        }
        let held = self.connections.get(&number).is_some_and(|c| c.held);
        self.handle(request, held)
    }

    /// Whether this is the lease that an agent wants to take over.
    fn serves(&self, expect: Option<Serving>, address: &str) -> Result<(), Refusal> {
        let serving = self.args.serving;
        if address != self.args.address {
            return Err(Refusal::WrongAddress {
                address: self.args.address.clone(),
                serving,
            });
        }
        match expect {
            Some(expected) if expected != serving => Err(Refusal::WrongLife { serving }),
            _ => Ok(()),
        }
    }

    fn hello(&mut self, number: u32, protocol: u32, agent_pid: i32) -> Result<(), Refusal> {
        if protocol != PROTOCOL {
            return Err(Refusal::Protocol { warden: PROTOCOL });
        }
        self.generation += 1;
        let generation = self.generation;
        log(format_args!(
            "warden: agent {agent_pid} is generation {generation}"
        ));
        let older = self
            .connections
            .values()
            .find(|c| c.agent && c.number != number)
            .map(|c| c.number);
        if let Some(older) = older {
            if let Some(connection) = self.connections.get_mut(&older) {
                // If it does not fit, the end of the connection says it too.
                let _ = connection.send(&FromWarden::Event(Event::Superseded { generation }));
                connection.flush(&self.poller);
            }
            self.hang_up(older);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.agent = true;
        }
        // The newest agent is told everything that nobody acknowledged.
        for ended in self.ended.values_mut() {
            ended.told = false;
        }
        for attempt in self.living.values_mut() {
            attempt.children.told = 0;
        }
        Ok(())
    }

    fn flush(&mut self, number: u32) {
        if let Some(connection) = self.connections.get_mut(&number)
            && !connection.flush(&self.poller)
        {
            self.hang_up(number);
        }
    }

    fn hang_up(&mut self, number: u32) {
        if let Some(connection) = self.connections.remove(&number) {
            connection.close(&self.poller);
        }
    }

    /// Sent now or never: what must arrive is kept in the attempts.
    pub(super) fn tell(&mut self, event: Event) {
        let Some(agent) = self.connections.values_mut().find(|c| c.open_for_notices) else {
            return;
        };
        if agent.send(&FromWarden::Event(event)).is_err() {
            let number = agent.number;
            self.hang_up(number);
        }
    }

    pub(super) fn send_notices(&mut self) {
        let now = boottime_ns();
        let Some(agent) = self.connections.values_mut().find(|c| c.open_for_notices) else {
            return;
        };
        let number = agent.number;
        let mut sent = Ok(());
        for attempt in self.living.values_mut() {
            if attempt.tell_progress_at.is_some_and(|at| now >= at) {
                attempt.told_progress(now);
                let (id, checkpoint) = (attempt.id, attempt.checkpoint.clone());
                sent = sent.and(agent.send(&FromWarden::Event(Event::Progress {
                    id,
                    checkpoint,
                    wall_ms: wall_ms(),
                })));
            }
        }
        for attempt in self.living.values_mut() {
            let id = attempt.id;
            let told = attempt.children.told;
            for kill in attempt.children.kept.iter().filter(|k| k.number > told) {
                attempt.children.told = kill.number;
                let kill = kill.clone();
                sent = sent.and(agent.send(&FromWarden::Event(Event::ChildKilled { id, kill })));
            }
        }
        for ended in self.ended.values_mut().filter(|e| !e.told) {
            if agent.unread() > OUT_LOW {
                break;
            }
            ended.told = true;
            // An agent that hears of an end has asked for the attempt, or has read of it in the list.
            let extra = std::mem::take(&mut ended.report.extra);
            let event = Event::Exited(Box::new(ended.report.clone()));
            ended.report.extra = extra;
            sent = sent.and(agent.send(&FromWarden::Event(event)));
        }
        match sent {
            Ok(()) => self.flush(number),
            Err(error) => {
                log(format_args!("warden: dropping the agent's connection: {error}"));
                self.hang_up(number);
            }
        }
    }
}
