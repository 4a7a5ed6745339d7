//! The warden's side of the socket: who may connect, frames in, frames out.

use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use bytes::{Buf, BytesMut};

use super::poller::{Poller, Source};
use farmhand_os::files::if_there;
use farmhand_warden_client::paths::{Paths, SOCKET, named};
use farmhand_warden_client::wire::frame::{self, FrameError};
use farmhand_warden_client::wire::{FromAgent, FromWarden};

/// Unread answers beyond this stop the reading of further requests.
const OUT_MAX: usize = 4 << 20;
/// Unread answers beyond this keep notices back; they wait in the attempts.
pub(crate) const OUT_LOW: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Connection {
    pub number: u32,
    stream: UnixStream,
    input: BytesMut,
    output: BytesMut,
    /// Said hello and is the newest.
    pub agent: bool,
    /// Handed to an agent without rights.
    pub held: bool,
    /// May be sent notices: the answers of its opening have all been given.
    pub open_for_notices: bool,
    asked: (bool, bool),
}

pub(crate) fn listen(paths: &Paths) -> io::Result<UnixListener> {
    let directory = std::fs::File::open(paths.private_dir())?;
    // A socket address holds 108 bytes; this path is always short.
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}/{}", directory.as_fd().as_raw_fd(), SOCKET);
    if_there(std::fs::remove_file(&path)).map_err(|e| named(e, &paths.private_dir()))?;
    let listener = UnixListener::bind(&path).map_err(|e| named(e, &paths.private_dir()))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Connection {
    /// `None`: not somebody who may speak to a warden.
    pub(crate) fn accept(stream: UnixStream, number: u32, poller: &Poller) -> io::Result<Option<Connection>> {
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        let uid = peer.uid.as_raw();
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            return Ok(None);
        }
        stream.set_nonblocking(true)?;
        poller.read(&stream, Source::Connection(number))?;
        Ok(Some(Connection {
            number,
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            agent: false,
            held: false,
            open_for_notices: false,
            asked: (true, false),
        }))
    }

    /// Takes in what has arrived; false when the peer is gone.
    pub(crate) fn fill(&mut self) -> bool {
        // Not zeroed: after a fork each page of it that is written to is copied.
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 64 << 10];
        match rustix::io::read(&self.stream, &mut buffer) {
            Ok((read, _)) => {
                self.input.extend_from_slice(read);
                !read.is_empty()
            }
            Err(e) => matches!(e, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        }
    }

    /// The next whole request, unless the peer does not read its answers.
    pub(crate) fn request(&mut self) -> Result<Option<FromAgent>, FrameError> {
        if self.output.len() > OUT_MAX {
            Ok(None)
        } else {
            frame::decode(&mut self.input)
        }
    }

    pub(crate) fn unread(&self) -> usize {
        self.output.len()
    }

    pub(crate) fn send(&mut self, message: &FromWarden) -> Result<(), FrameError> {
        let mut wire = Vec::new();
        frame::encode(message, &mut wire)?;
        self.output.extend_from_slice(&wire);
        Ok(())
    }

    /// Writes what the peer takes now; false when it is gone.
    pub(crate) fn flush(&mut self, poller: &Poller) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => self.output.advance(count),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        let want = (self.output.len() <= OUT_MAX, !self.output.is_empty());
        if want != self.asked {
            self.asked = want;
            let source = Source::Connection(self.number);
            return poller
                .read_and_write(&self.stream, source, want.0, want.1)
                .is_ok();
        }
        true
    }

    pub(crate) fn close(self, poller: &Poller) {
        poller.forget(&self.stream);
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
