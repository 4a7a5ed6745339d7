//! Connections: who is the agent now, whose requests count, who is told what.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};

use super::attempts::Attempts;
use super::connection::{Connection, listen};
use super::log::log;
use super::poller::{Poller, Source};
use farmhand_os::clock::boottime_ns;
use farmhand_warden_client::paths::Paths;
use farmhand_warden_client::wire::*;

/// The agent, one that it supersedes, and a few that only ask who is there.
const MAX_CONNECTIONS: usize = 16;

#[derive(Debug)]
pub(super) struct Peers {
    listener: UnixListener,
    connections: BTreeMap<u32, Connection>,
    next: u32,
    generation: u64,
}

impl Peers {
    pub(super) fn new(paths: &Paths, poller: &Poller) -> io::Result<Self> {
        let listener = listen(paths)?;
        poller.read(&listener, Source::Listener)?;
        Ok(Self {
            listener,
            connections: BTreeMap::new(),
            next: 0,
            generation: 0,
        })
    }

    /// Counts hellos.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the agent has something to read or to acknowledge.
    pub(super) fn agent_has_unread(&self, unacknowledged: bool) -> bool {
        let mut all = self.connections.values();
        all.any(|c| c.agent && (c.unread() > 0 || unacknowledged))
    }

    /// Whether there is somebody who hears of progress.
    pub(super) fn anybody_listens(&self) -> bool {
        self.connections.values().any(|c| c.open_for_notices)
    }

    pub(super) fn accept_all(&mut self, poller: &Poller) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return log(format_args!("warden: accept: {error}")),
            };
            if self.connections.len() >= MAX_CONNECTIONS {
                // Strangers make room; the agent never does.
                let stranger = self.connections.values().find(|c| !c.agent).map(|c| c.number);
                if let Some(number) = stranger {
                    self.hang_up(number, poller);
                }
            }
            match self.add(stream, poller) {
                Ok(true) => {}
                Ok(false) => log(format_args!("warden: another user tried to connect")),
                Err(error) => log(format_args!("warden: a connection failed: {error}")),
            }
        }
    }

    /// False: it is of nobody who may speak to a warden.
    pub(super) fn add(&mut self, stream: UnixStream, poller: &Poller) -> io::Result<bool> {
        let number = self.next;
        self.next = number.wrapping_add(1);
        let connection = Connection::accept(stream, number, poller)?;
        let may = connection.is_some();
        self.connections.extend(connection.map(|c| (number, c)));
        Ok(may)
    }

    pub(super) fn receive(&mut self, number: u32, poller: &Poller) {
        if self.connections.get_mut(&number).is_some_and(|c| !c.fill()) {
            self.hang_up(number, poller);
        }
    }

    /// The next request of a connection that is still there.
    pub(super) fn request(&mut self, number: u32, poller: &Poller) -> Option<FromAgent> {
        match self.connections.get_mut(&number)?.request() {
            Ok(request) => request,
            Err(error) => {
                log(format_args!("warden: dropping a connection: {error}"));
                self.hang_up(number, poller);
                None
            }
        }
    }

    pub(super) fn reply(&mut self, number: u32, seq: u64, result: Result<Reply, Refusal>, poller: &Poller) {
        let reply = FromWarden::Reply { seq, result };
        if self
            .connections
            .get_mut(&number)
            .is_some_and(|c| c.send(&reply).is_err())
        {
            self.hang_up(number, poller);
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Connection> {
        self.connections.get_mut(&number)
    }

    /// This connection is the agent's from now on.
    pub(super) fn take_over(&mut self, number: u32, agent_pid: i32, poller: &Poller) {
        self.generation += 1;
        let generation = self.generation;
        log(format_args!(
            "warden: agent {agent_pid} is generation {generation}"
        ));
        let mut others = self.connections.values_mut();
        if let Some(older) = others.find(|c| c.agent && c.number != number) {
            // If it does not fit, the end of the connection says it too.
            let _ = older.send(&FromWarden::Event(Event::Superseded { generation }));
            older.flush(poller);
            let older = older.number;
            self.hang_up(older, poller);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.agent = true;
        }
    }

    pub(super) fn flush(&mut self, number: u32, poller: &Poller) {
        if self
            .connections
            .get_mut(&number)
            .is_some_and(|c| !c.flush(poller))
        {
            self.hang_up(number, poller);
        }
    }

    fn hang_up(&mut self, number: u32, poller: &Poller) {
        if let Some(connection) = self.connections.remove(&number) {
            connection.close(poller);
        }
    }

    pub(super) fn forget_all(&mut self, poller: &Poller) {
        for (_, connection) in std::mem::take(&mut self.connections) {
            connection.close(poller);
        }
        self.generation = 0;
    }

    /// Sent now or never: what must arrive is kept in the attempts.
    pub(super) fn tell(&mut self, event: Event, poller: &Poller) {
        let mut all = self.connections.values_mut();
        if let Some(agent) = all.find(|c| c.open_for_notices)
            && agent.send(&FromWarden::Event(event)).is_err()
        {
            let number = agent.number;
            self.hang_up(number, poller);
        }
    }

    pub(super) fn send_notices(&mut self, attempts: &mut Attempts, poller: &Poller) {
        let mut all = self.connections.values_mut();
        let Some(agent) = all.find(|c| c.open_for_notices) else {
            return;
        };
        let number = agent.number;
        match attempts.send_notices(agent, boottime_ns()) {
            Ok(()) => self.flush(number, poller),
            Err(error) => {
                log(format_args!("warden: dropping the agent's connection: {error}"));
                self.hang_up(number, poller);
            }
        }
    }
}
