//! A network between an agent and PostgreSQL that fails as told.

mod statements;

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use self::statements::Statements;

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    Pass,
    /// Lost packets: nothing arrives until the network heals, then all of it does.
    Hold,
    /// Lost for good.
    Discard,
}

/// Between one agent and its database.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    server: SocketAddr,
    to_server: AtomicU8,
    to_client: AtomicU8,
    /// Set: connections are closed at once, and refused.
    cut: AtomicBool,
    changed: Notify,
    /// The reply to lose.
    lose: Mutex<Option<Loss>>,
    lost: AtomicUsize,
    /// Bytes of a direction after which its connection ends; `UNCUT` for none.
    cut_to_server: AtomicI64,
    cut_to_client: AtomicI64,
}

const UNCUT: i64 = i64::MAX;

/// Without the transaction's state, which ends it.
const READY_FOR_QUERY: [u8; 5] = *b"Z\0\0\0\x05";

/// Which reply is to be lost: to the first executed statement that contains `statement`, if it has `reply`.
struct Loss {
    statement: String,
    reply: String,
}

impl Proxy {
    /// Listens on the loopback and forwards to `server`.
    pub async fn start(server: SocketAddr) -> Self {
        Self::start_at("127.0.0.1", server).await
    }

    /// Listens on an address of this machine and forwards to `server`.
    pub async fn start_at(host: &str, server: SocketAddr) -> Self {
        let listener = TcpListener::bind((host, 0)).await.expect("a port for the proxy");
        let addr = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared {
            server,
            to_server: AtomicU8::new(Flow::Pass as u8),
            to_client: AtomicU8::new(Flow::Pass as u8),
            cut: AtomicBool::new(false),
            changed: Notify::new(),
            lose: Mutex::new(None),
            lost: AtomicUsize::new(0),
            cut_to_server: AtomicI64::new(UNCUT),
            cut_to_client: AtomicI64::new(UNCUT),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Self {
            addr,
            shared,
            accepting,
        }
    }

    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    pub fn to_server(&self, flow: Flow) {
        self.shared.to_server.store(flow as u8, Ordering::SeqCst);
        self.shared.changed.notify_waiters();
    }

    pub fn to_client(&self, flow: Flow) {
        self.shared.to_client.store(flow as u8, Ordering::SeqCst);
        self.shared.changed.notify_waiters();
    }

    /// Closes every connection and refuses new ones.
    pub fn cut(&self) {
        self.shared.cut.store(true, Ordering::SeqCst);
        self.shared.changed.notify_waiters();
    }

    /// After `bytes` further ones of a direction the connection that carries the last of them ends, once.
    pub fn cut_after(&self, bytes: i64, to_server: bool) {
        let point = if to_server {
            &self.shared.cut_to_server
        } else {
            &self.shared.cut_to_client
        };
        point.store(bytes, Ordering::SeqCst);
    }

    /// Everything flows again; what was held back arrives now.
    pub fn heal(&self) {
        self.shared.cut.store(false, Ordering::SeqCst);
        self.to_server(Flow::Pass);
        self.to_client(Flow::Pass);
    }

    /// The next statement that contains `statement` and is executed, not only prepared, reaches the server; its reply is
    /// lost and the connection closed.
    pub fn lose_reply_after(&self, statement: &str) {
        self.lose_reply_with(statement, "");
    }

    /// As `lose_reply_after`, but passes replies that have nothing of `reply`, such as those of claims that won nothing.
    pub fn lose_reply_with(&self, statement: &str, reply: &str) {
        *self.shared.lose.lock().expect("no panic under it") = Some(Loss {
            statement: statement.to_owned(),
            reply: reply.to_owned(),
        });
    }

    /// Replies lost so far.
    pub fn replies_lost(&self) -> usize {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

/// How many of `n` bytes still pass when the connection is to end within them.
fn cut_within(point: &AtomicI64, n: usize) -> Option<usize> {
    if point.load(Ordering::SeqCst) == UNCUT {
        return None;
    }
    let before = point.fetch_sub(i64::try_from(n).unwrap_or(UNCUT), Ordering::SeqCst);
    let keep = usize::try_from(before).ok().filter(|keep| *keep <= n)?;
    point.store(UNCUT, Ordering::SeqCst);
    Some(keep)
}

impl Shared {
    fn is_wanted(&self, executed: &[Vec<u8>]) -> bool {
        let loss = self.lose.lock().expect("no panic under it");
        loss.as_ref().is_some_and(|loss| {
            executed
                .iter()
                .any(|statement| contains(statement, &loss.statement))
        })
    }

    /// Once for each wish.
    fn is_to_be_lost(&self, reply: &[u8]) -> bool {
        self.lose
            .lock()
            .expect("no panic under it")
            .take_if(|loss| contains(reply, &loss.reply))
            .is_some()
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            if shared.cut.load(Ordering::SeqCst) {
                return;
            }
            if let Ok(server) = TcpStream::connect(shared.server).await {
                carry(client, server, &shared).await;
            }
        });
    }
}

async fn carry(client: TcpStream, server: TcpStream, shared: &Shared) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    // The server asks for signs of life, and this machine would go on answering for a client that is gone.
    ask_for_life(&client);
    ask_for_life(&server);
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let marked = AtomicBool::new(false);
    let cut = async {
        loop {
            let changed = shared.changed.notified();
            if shared.cut.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    };
    tokio::select! {
        () = upward(from_client, to_server, shared, &marked) => {}
        () = downward(from_server, to_client, shared, &marked) => {}
        () = cut => {}
    }
}

/// As the sessions of agents do (`common/store/src/settings.rs`).
fn ask_for_life(stream: &TcpStream) {
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 10),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 3),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 30_000),
    ] {
        let value: libc::c_int = value;
        let size = libc::socklen_t::try_from(size_of_val(&value)).expect("four bytes");
        // SAFETY: the descriptor is this stream's, and the kernel reads `size` bytes of a value that outlives the call.
        let done =
            unsafe { libc::setsockopt(stream.as_raw_fd(), level, option, (&raw const value).cast(), size) };
        assert_eq!(done, 0, "option {option}: {}", std::io::Error::last_os_error());
    }
}

async fn upward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, marked: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    let mut statements = Statements::default();
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        if !passes(&shared.to_server, shared).await {
            continue;
        }
        if shared.is_wanted(&statements.feed(&buffer[..n])) {
            marked.store(true, Ordering::SeqCst);
        }
        if let Some(keep) = cut_within(&shared.cut_to_server, n) {
            let _ = to.write_all(&buffer[..keep]).await;
            return;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

async fn downward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, marked: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let reply = &buffer[..n];
        if marked.load(Ordering::SeqCst) && shared.is_to_be_lost(reply) {
            // The reply to the marked statement: what belongs to it comes within moments.
            tokio::time::sleep(Duration::from_millis(50)).await;
            shared.lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        // The server is ready for the next statement, and this one's reply was another one.
        if reply.len() > 5 && reply[n - 6..n - 1] == READY_FOR_QUERY {
            marked.store(false, Ordering::SeqCst);
        }
        if !passes(&shared.to_client, shared).await {
            continue;
        }
        if let Some(keep) = cut_within(&shared.cut_to_client, n) {
            let _ = to.write_all(&buffer[..keep]).await;
            return;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

/// Waits while the direction is held; false when the bytes are to be discarded.
async fn passes(direction: &AtomicU8, shared: &Shared) -> bool {
    loop {
        let changed = shared.changed.notified();
        match direction.load(Ordering::SeqCst) {
            flow if flow == Flow::Pass as u8 => return true,
            flow if flow == Flow::Discard as u8 => return false,
            _ => changed.await,
        }
    }
}
