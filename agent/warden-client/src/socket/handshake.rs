//! How a connection begins: find the warden, prove which process it is, take it over.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::UnixStream;

use super::client::{Notices, WardenClient};
use super::message::{ANSWER_WITHIN, WardenError, ask_alone, broken, identity_of};
use crate::death::{PidFd, ProofOfDeath, lock};
use crate::helper::{self, LocatedWarden};
use crate::paths::{Paths, SOCKET};
use crate::wire::*;

/// How long a reaper may sweep, or a warden start, before connecting gives up.
const SETTLE_WITHIN: Duration = Duration::from_secs(15);

impl WardenClient {
    /// Takes over the warden that lives in `state_dir`, cutting off an older agent, unless it serves another node than
    /// `address`, or another lease than `serving` where one is named. `None`: none lives, and that is certain. Waits a while for
    /// a reaper that is still ending its processes.
    pub async fn connect(
        state_dir: &Path,
        serving: Option<Serving>,
        address: &str,
    ) -> Result<Option<(WardenClient, Notices)>, WardenError> {
        let paths = Paths::new(state_dir);
        match dial_living(&paths).await? {
            Some(stream) => Ok(Some(Self::hello(stream, &paths, serving, address).await?)),
            None => Ok(None),
        }
    }

    /// Who serves in `state_dir`, without taking it over.
    pub async fn identify(state_dir: &Path) -> Result<Option<Identity>, WardenError> {
        let paths = Paths::new(state_dir);
        let Some(stream) = dial_living(&paths).await? else {
            return Ok(None);
        };
        let (mut read, mut write) = stream.into_split();
        let mut buffer = BytesMut::new();
        let ask = ask_alone(&mut read, &mut write, &mut buffer, 0, Request::Identify);
        match tokio::time::timeout(ANSWER_WITHIN, ask).await {
            Ok(answer) => Ok(Some(identity_of(answer?)?)),
            Err(_) => Err(WardenError::NoAnswer { proof: None }),
        }
    }

    /// Says hello on a fresh connection and makes sure that the answer comes from the process at its other end.
    pub async fn hello(
        stream: UnixStream,
        paths: &Paths,
        expect: Option<Serving>,
        address: &str,
    ) -> Result<(WardenClient, Notices), WardenError> {
        let broken = |source| broken(paths, source);
        let peer = stream
            .peer_cred()
            .map_err(broken)?
            .pid()
            .ok_or(WardenError::Gone)?;
        // Opened before the hello is answered: the answer proves that this is the process that gave it.
        let warden = PidFd::open(peer).map_err(broken)?.ok_or(WardenError::Gone)?;
        let (mut read, mut write) = stream.into_split();
        let mut buffer = BytesMut::new();
        let request = Request::Hello {
            protocol: PROTOCOL,
            agent_pid: std::process::id().cast_signed(),
            expect,
            address: address.to_owned(),
        };
        let answer = tokio::time::timeout(ANSWER_WITHIN, async {
            let first = identity_of(ask_alone(&mut read, &mut write, &mut buffer, 0, request).await?)?;
            let reaper = PidFd::open(first.reaper_pid)
                .map_err(broken)?
                .ok_or(WardenError::Gone)?;
            // The second answer, given after the pidfd was opened, proves the reaper in the same way.
            let second =
                identity_of(ask_alone(&mut read, &mut write, &mut buffer, 1, Request::Identify).await?)?;
            if (second.warden_pid, second.reaper_pid) != (peer, reaper.pid()) {
                return Err(WardenError::Protocol(
                    "the warden's or reaper's pid changed".into(),
                ));
            }
            Ok((second, reaper))
        })
        .await;
        let (identity, reaper) = match answer {
            Ok(answer) => answer?,
            Err(_) => {
                let proof = ProofOfDeath::new(warden, None, paths.clone());
                return Err(WardenError::NoAnswer { proof: Some(proof) });
            }
        };
        let proof = ProofOfDeath::new(warden, Some(reaper), paths.clone());
        Ok(Self::run(read, write, buffer, identity, proof))
    }
}

impl WardenClient {
    /// Connects to a living warden without a word; `None` when certainly nobody lives.
    pub async fn dial_living(paths: &Paths) -> Result<Option<UnixStream>, WardenError> {
        dial_living(paths).await
    }

    /// Makes the connection one for an agent without rights, and opens a handle of the very process at its other end. Nothing is
    /// taken over.
    pub async fn held(stream: UnixStream) -> Result<(UnixStream, PidFd), WardenError> {
        let gone = |_| WardenError::Gone;
        let peer = stream.peer_cred().map_err(gone)?.pid().ok_or(WardenError::Gone)?;
        // As in the hello: answered after this was opened, so by this process.
        let warden = PidFd::open(peer).map_err(gone)?.ok_or(WardenError::Gone)?;
        let (mut read, mut write) = stream.into_split();
        let mut buffer = BytesMut::new();
        let answer = ask_alone(&mut read, &mut write, &mut buffer, 0, Request::Hold);
        let answer = tokio::time::timeout(ANSWER_WITHIN, answer).await;
        identity_of(answer.map_err(|_| WardenError::NoAnswer { proof: None })??)?;
        let stream = read.reunite(write).map_err(|_| WardenError::Gone)?;
        Ok((stream, warden))
    }
}

/// Connects to a living warden; `None` when certainly nobody lives.
pub(crate) async fn dial_living(paths: &Paths) -> Result<Option<UnixStream>, WardenError> {
    if let Some(helper) = helper::here() {
        return match helper.connect().await {
            Ok(LocatedWarden::Living(stream)) => Ok(Some(stream)),
            Ok(LocatedWarden::Nobody) => Ok(None),
            Ok(LocatedWarden::NoAnswer) => Err(WardenError::NoAnswer { proof: None }),
            Ok(LocatedWarden::Busy) => Err(WardenError::Busy(paths.state_dir().display().to_string())),
            Err(e) => Err(broken(paths, e)),
        };
    }
    let give_up = tokio::time::Instant::now() + SETTLE_WITHIN;
    loop {
        match dial(paths).await {
            // The queue of one that hangs with SIGKILL pending takes connections, too.
            Ok(stream) if lock::is_held(&paths.lock()).map_err(|e| broken(paths, e))? => {
                return Ok(Some(stream));
            }
            Ok(_) => return Ok(None),
            // Reset: it has died since the kernel answered for it.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::ConnectionReset
                ) => {}
            // The queue of a stopped warden is full.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(WardenError::NoAnswer { proof: None });
            }
            Err(e) => return Err(broken(paths, e)),
        }
        if !lock::is_held(&paths.lock()).map_err(|e| broken(paths, e))? {
            return Ok(None);
        }
        if tokio::time::Instant::now() > give_up {
            return Err(WardenError::Busy(paths.state_dir().display().to_string()));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A socket address holds 108 bytes, a state directory's path may be longer: go through a descriptor of it.
pub(crate) async fn dial(paths: &Paths) -> io::Result<UnixStream> {
    let directory = std::fs::File::open(paths.private_dir())?;
    let name = format!("/proc/self/fd/{}/{}", directory.as_fd().as_raw_fd(), SOCKET);
    UnixStream::connect(name).await
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::privilege::prepare;

    /// The kernel answers for a warden that is stopped, and takes the answer back when it dies.
    #[tokio::test]
    async fn a_warden_that_dies_while_it_is_dialled_is_nobody() {
        let state_dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(state_dir.path());
        prepare(&paths).unwrap();
        let socket = paths.private_dir().join(SOCKET);
        let warden = UnixListener::bind(socket).unwrap();
        let mut dialling = std::pin::pin!(dial_living(&paths));
        tokio::select! {
            biased;
            found = &mut dialling => panic!("too early: {found:?}"),
            () = std::future::ready(()) => drop(warden),
        }
        let found = dialling.await;
        assert!(matches!(found, Ok(None)), "{found:?}");
    }
}
