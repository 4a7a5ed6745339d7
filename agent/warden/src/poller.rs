//! What the warden waits for, as one enum packed into epoll's 64 bits.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Listener,
    Signals,
    Wake,
    Connection(u32),
    Attempt(u32, Channel),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Stdin,
    Stdout,
    Stderr,
    Progress,
    StartError,
    Status,
}

const CHANNELS: [Channel; 6] = [
    Channel::Stdin,
    Channel::Stdout,
    Channel::Stderr,
    Channel::Progress,
    Channel::StartError,
    Channel::Status,
];

impl Source {
    fn pack(self) -> u64 {
        let (kind, channel, number) = match self {
            Source::Listener => (0, 0, 0),
            Source::Signals => (1, 0, 0),
            Source::Wake => (2, 0, 0),
            Source::Connection(number) => (3, 0, number),
            Source::Attempt(number, channel) => (4, channel as u64, number),
        };
        kind << 40 | channel << 32 | u64::from(number)
    }

    fn unpack(packed: u64) -> Source {
        let number = packed as u32;
        match packed >> 40 {
            0 => Source::Listener,
            1 => Source::Signals,
            2 => Source::Wake,
            3 => Source::Connection(number),
            _ => Source::Attempt(number, CHANNELS[(packed >> 32) as usize & 0xff]),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        Ok(Poller {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    pub(crate) fn read(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(source.pack()),
            EventFlags::IN,
        )?)
    }

    pub(crate) fn write(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(source.pack()),
            EventFlags::OUT,
        )?)
    }

    pub(crate) fn read_and_write(
        &self,
        fd: impl AsFd,
        source: Source,
        read: bool,
        write: bool,
    ) -> io::Result<()> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, read);
        flags.set(EventFlags::OUT, write);
        Ok(epoll::modify(
            &self.epoll,
            fd,
            EventData::new_u64(source.pack()),
            flags,
        )?)
    }

    /// Must come before the descriptor is closed: a forked child may keep its description alive.
    pub(crate) fn forget(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// At least one event, unless a signal came between.
    pub(crate) fn wait(&self) -> io::Result<Vec<Source>> {
        let mut events = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; 128];
        match epoll::wait(&self.epoll, &mut events, None) {
            Ok(count) => Ok(events[..count]
                .iter()
                .map(|e| Source::unpack(e.data.u64()))
                .collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_comes_back_as_it_went() {
        let mut all = vec![
            Source::Listener,
            Source::Signals,
            Source::Wake,
            Source::Connection(u32::MAX),
        ];
        all.extend(CHANNELS.map(|c| Source::Attempt(u32::MAX - 1, c)));
        for source in all {
            assert_eq!(Source::unpack(source.pack()), source);
        }
    }
}
