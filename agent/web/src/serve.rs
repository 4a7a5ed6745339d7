//! Connections: bounded in number, in time and, per address, in share.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::auth::{Remote, network};
use super::refusals::Refused;
use super::slow_peer::PeerTimeout;
use super::{App, Tls, health_router, router};
use farmhand_os::memory;

/// Connections at once.
const CONNECTIONS: usize = 512;
/// Of one address.
const PER_ADDRESS: usize = 128;
/// Beyond those, for one health check each: whoever takes all the others cannot have the farm taken for dead.
const RESERVED: usize = 32;
const RESERVED_PER_ADDRESS: usize = 4;
/// The head of a request on a reserved place takes no longer.
const SHORT_TIME: Duration = Duration::from_secs(2);
/// The head of a request, and a TLS handshake, take no longer.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// A peer that takes nothing of an answer for so long is not waited for any longer.
const TAKING: Duration = Duration::from_secs(20);
/// Largest head of a request, in bytes.
const HEAD: usize = 32 * 1024;

/// Binds before anything else is started, so that a taken port is an error at once.
pub async fn bind(addr: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(addr).await
}

/// What a listener serves, and how.
pub struct Serving {
    /// Else only what is for machines: metrics and health.
    pub api: bool,
    /// Whether `/metrics` wants a token.
    pub metrics_token: bool,
    /// The certificate to serve with; plain HTTP without one.
    pub tls: Option<Arc<Tls>>,
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, app: App, serving: Serving) {
    let (router, health) = (router(&app, &serving), health_router(&app));
    // The table of routes documents each of them, and an agent may never be asked for that.
    memory::give_back();
    let open = Open::of(CONNECTIONS, PER_ADDRESS);
    let reserved = Open::of(RESERVED, RESERVED_PER_ADDRESS);
    if serving.api {
        let app = app.clone();
        tokio::spawn(async move {
            if let Some(login) = &app.definitions {
                login.warn(&app.db).await;
            }
        });
    }
    let mut folding = tokio::time::interval(Duration::from_secs(10));
    loop {
        let (stream, remote) = tokio::select! {
            _ = folding.tick() => {
                app.refusals.look();
                continue;
            }
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: the others go on, and this one is tried again.
                    tracing::warn!("accepting a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (place, router, terms) = match open.enter(remote.ip()) {
            Some(place) => (place, &router, Terms::USUAL),
            None => {
                note(&app, remote.ip(), "connections");
                match reserved.enter(remote.ip()) {
                    Some(place) => (place, &health, Terms::RESERVED),
                    None => continue,
                }
            }
        };
        let (app, router, tls) = (app.clone(), router.clone(), serving.tls.clone());
        tokio::spawn(async move {
            converse(stream, remote.ip(), &app, router, tls, terms).await;
            drop(place);
        });
    }
}

/// How long a connection may take, and for how many requests.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    head: Duration,
    keep_alive: bool,
}

impl Terms {
    pub(super) const USUAL: Self = Self {
        head: HEAD_TIME,
        keep_alive: true,
    };
    const RESERVED: Self = Self {
        head: SHORT_TIME,
        keep_alive: false,
    };
}

async fn converse(
    stream: TcpStream,
    remote: IpAddr,
    app: &App,
    router: Router,
    tls: Option<Arc<Tls>>,
    terms: Terms,
) {
    // A connection that a browser opens in advance says nothing, and that is no attack.
    if !matches!(timeout(terms.head, stream.peek(&mut [0])).await, Ok(Ok(1))) {
        return;
    }
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return requests(stream, remote, app, router, terms).await;
    };
    match timeout(terms.head, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => requests(stream, remote, app, router, terms).await,
        _ => note(app, remote, "tls"),
    }
}

pub(super) async fn requests<S>(stream: S, remote: IpAddr, app: &App, router: Router, terms: Terms)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = router.map_request(move |request: Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Remote(remote));
        request
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(terms.head)
        .keep_alive(terms.keep_alive)
        .max_buf_size(HEAD)
        // Else hyper 1.12 puts its refusal of a request that makes no sense before what is still queued of the answer to
        // the one before it.
        .writev(false)
        .serve_connection(
            TokioIo::new(PeerTimeout::new(stream, TAKING)),
            TowerToHyperService::new(service),
        )
        .await;
    match ended {
        Err(error) if error.is_timeout() => note(app, remote, "head_time"),
        Err(error) if error.is_parse() => note(app, remote, "malformed"),
        Err(error) if has_run_out(&error) => note(app, remote, "taking_time"),
        _ => {}
    }
}

/// Whether the peer took nothing for too long.
fn has_run_out(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::TimedOut)
}

fn note(app: &App, remote: IpAddr, reason: &'static str) {
    app.refusals.note(Refused {
        reason,
        token: None,
        remote: Some(remote),
        method: String::new(),
        path: String::new(),
        times: 1,
    });
}

#[derive(Clone)]
struct Open {
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
    per_address: usize,
}

/// One connection's place, given back when it is dropped.
struct Place {
    open: Open,
    remote: IpAddr,
}

impl Open {
    fn of(most: usize, per_address: usize) -> Self {
        Self {
            by_address: Arc::default(),
            most,
            per_address,
        }
    }

    fn enter(&self, remote: IpAddr) -> Option<Place> {
        let remote = network(remote);
        let mut open = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let own = open.get(&remote).copied().unwrap_or(0);
        if all >= self.most || own >= self.per_address {
            return None;
        }
        open.insert(remote, own + 1);
        Some(Place {
            open: self.clone(),
            remote,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self
            .open
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.remote) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(open.remove(&self.remote)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_places_and_gives_them_back() {
        let open = Open::of(CONNECTIONS, PER_ADDRESS);
        let greedy = IpAddr::from([10, 0, 0, 1]);
        let mut places: Vec<_> = (0..PER_ADDRESS).filter_map(|_| open.enter(greedy)).collect();
        assert_eq!(places.len(), PER_ADDRESS);
        assert!(open.enter(greedy).is_none());
        assert!(open.enter(IpAddr::from([10, 0, 0, 2])).is_some());
        let six = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host]);
        let all: Vec<_> = (0..2 * 128).filter_map(|host| open.enter(six(host))).collect();
        assert_eq!(all.len(), PER_ADDRESS, "a network of IPv6 is one address");
        drop(all);
        places.pop();
        assert!(open.enter(greedy).is_some());
        places.clear();
        assert!(open.by_address.lock().unwrap().is_empty());
    }
}
