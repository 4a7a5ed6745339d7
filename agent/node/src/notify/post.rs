//! One HTTP request to the outside: bounded in time and size, with no redirect followed, because what a webhook is
//! told, its secrets included, is for the host that it names.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use farmhand_core::notify::Url;
use farmhand_core::release;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Of an answer, for the error it may hold.
const ANSWER_BYTES: usize = 4_096;

/// Characters of an answer that are kept.
const ANSWER_CHARS: usize = 200;

/// How long is waited for the text of an answer whose status is known.
const ANSWER_TEXT: Duration = Duration::from_secs(1);

/// A part of an address that is as long may be a secret.
const SECRET: usize = 8;

pub(crate) struct Outgoing<'a> {
    pub method: Method,
    pub url: &'a Url,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// What no error may repeat.
    pub secrets: Vec<String>,
}

/// What may be secret of an address and its headers, the longest first: an answer may repeat it.
pub(crate) fn secrets(url: &Url, headers: &[(HeaderName, HeaderValue)]) -> Vec<String> {
    let long = |part: &&str| part.len() >= SECRET;
    let parts = url.path.split(['/', '?', '&', '=', '#']).filter(long);
    let mut all: Vec<String> = (parts.clone().map(str::to_owned))
        .chain(parts.filter_map(|part| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned())))
        .collect();
    if url.path.len() > 1 {
        all.push(url.path.clone());
    }
    for (_, value) in headers.iter().filter(|(_, value)| value.is_sensitive()) {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        all.extend(text.split(' ').filter(long).map(str::to_owned));
        all.push(text);
    }
    all.retain(|secret| !secret.is_empty());
    all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    all
}

/// One try, from the connection to the answer.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Sends it; `Err` says in a sentence why it did not arrive, without the URL's path, which may be a secret.
pub(crate) async fn send(tls: &Arc<ClientConfig>, what: Outgoing<'_>, limit: Duration) -> Result<(), String> {
    let shown = what.url.shown();
    let secrets = what.secrets.clone();
    let answer = match tokio::time::timeout(limit, exchange(tls, what, limit)).await {
        Ok(answer) => answer.map_err(|why| format!("{shown}: {why}"))?,
        Err(_) => return Err(format!("{shown}: no answer within {limit:?}")),
    };
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let why = if status.is_redirection() {
        let to = answer.headers().get(hyper::header::LOCATION);
        let to = to.and_then(|v| Url::parse(v.to_str().ok()?).ok());
        let to = to.map_or_else(|| "another path".to_owned(), |url| url.shown());
        format!("redirected to {to}, which is not followed: name the address it leads to")
    } else {
        short(answer.body(), &secrets)
    };
    Err(format!("{shown}: answered {status} {why}").trim_end().to_owned())
}

async fn exchange(
    tls: &Arc<ClientConfig>,
    what: Outgoing<'_>,
    limit: Duration,
) -> Result<Response<Bytes>, String> {
    let url = what.url;
    let stream = connect(&url.host, url.port, limit).await?;
    if url.tls {
        let stream = secured(tls, &url.host, stream).await?;
        request(stream, what).await
    } else {
        request(stream, what).await
    }
}

/// Connects to the first of the host's addresses that answers. They share the time, so that one that does not answer leaves some
/// for the next.
pub(super) async fn connect(host: &str, port: u16, limit: Duration) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|e| format!("cannot connect: {e}"))?.collect();
    to_any(&addresses, limit).await
}

async fn to_any(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, String> {
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut failed = "no address".to_owned();
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(e)) => failed = e.to_string(),
            Err(_) => failed = format!("no answer from {address} within {share:?}"),
        }
    }
    Err(format!("cannot connect: {failed}"))
}

/// TLS over a stream, with the host's name verified.
pub(crate) async fn secured(
    tls: &Arc<ClientConfig>,
    host: &str,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
    let name =
        ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is not a valid name for TLS"))?;
    TlsConnector::from(tls.clone())
        .connect(name, stream)
        .await
        .map_err(|e| format!("TLS: {e}"))
}

async fn request<S>(stream: S, what: Outgoing<'_>) -> Result<Response<Bytes>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |e: hyper::Error| format!("HTTP: {e}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    // Ends with the connection, which ends with the sender.
    let driver = tokio::spawn(connection);
    let mut request = Request::builder()
        .method(what.method)
        .uri(&what.url.path)
        .header(HOST, &what.url.authority)
        .header(USER_AGENT, format!("farmhand/{}", release::version()))
        .header(CONTENT_TYPE, "application/json");
    for (name, value) in what.headers {
        request = request.header(name, value);
    }
    let request = request
        .body(Full::new(what.body))
        .map_err(|e| format!("HTTP: {e}"))?;
    let answer = sender.send_request(request).await.map_err(failed)?;
    let (head, mut body) = answer.into_parts();
    // The status counts; of a text that is too long, does not end or breaks off, the beginning is enough.
    let mut text = BytesMut::new();
    let until = tokio::time::Instant::now() + ANSWER_TEXT;
    while !head.status.is_success() && text.len() < ANSWER_BYTES {
        let Ok(Some(Ok(frame))) = tokio::time::timeout_at(until, body.frame()).await else {
            break;
        };
        text.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
    }
    drop(sender);
    driver.abort();
    Ok(Response::from_parts(head, text.freeze()))
}

/// The beginning of an answer, as one printable line without what is secret.
fn short(body: &[u8], secrets: &[String]) -> String {
    let text = String::from_utf8_lossy(body).into_owned();
    let text = (secrets.iter()).fold(text, |text, secret| text.replace(secret, "…"));
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(ANSWER_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpSocket;

    use super::*;

    /// A port that never answers: its queue of connections is full, and the kernel drops what comes then.
    struct BlackHole {
        address: SocketAddr,
        _listener: tokio::net::TcpListener,
        _queued: Vec<std::net::TcpStream>,
    }

    impl BlackHole {
        fn new() -> Self {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = socket.listen(0).unwrap();
            let address = listener.local_addr().unwrap();
            let mut queued = Vec::new();
            while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
                queued.push(stream);
            }
            Self {
                address,
                _listener: listener,
                _queued: queued,
            }
        }
    }

    /// The error of what is sent to a server that says this, and says nothing more.
    async fn answered(path: &str, text: &'static str) -> Result<(), String> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}{path}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let mut stream = listener.accept().await.unwrap().0;
            stream.write_all(text.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        });
        let url = Url::parse(&url).unwrap();
        let mut token = HeaderValue::from_static("Bearer xyzzy-plugh");
        token.set_sensitive(true);
        let headers = vec![(hyper::header::AUTHORIZATION, token)];
        let what = Outgoing {
            method: Method::POST,
            url: &url,
            secrets: secrets(&url, &headers),
            headers,
            body: Bytes::new(),
        };
        let tls = Arc::new(farmhand_store::tls::outgoing().unwrap());
        let sent = send(&tls, what, Duration::from_secs(10)).await;
        server.abort();
        sent
    }

    #[tokio::test]
    async fn the_status_counts_also_when_the_text_does_not_end() {
        assert_eq!(answered("/hook", "HTTP/1.1 200 OK\r\n\r\nok").await, Ok(()));
        let refused = answered("/hook", "HTTP/1.1 500 Oh\r\n\r\nno disk")
            .await
            .unwrap_err();
        assert!(
            refused.ends_with("answered 500 Internal Server Error no disk"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn an_answer_that_repeats_the_address_or_a_header_gives_no_secret_away() {
        let text = "HTTP/1.1 404 No\r\n\r\nno /T000/geheim-geheim, no geheim geheim, no xyzzy-plugh";
        let refused = answered("/T000/geheim-geheim?geheim%20geheim", text)
            .await
            .unwrap_err();
        assert!(
            !refused.contains("geheim") && !refused.contains("plugh"),
            "{refused}"
        );
        let elsewhere = answered("/geheim-geheim", "HTTP/1.1 302 Go\r\nLocation: /login\r\n\r\n")
            .await
            .unwrap_err();
        assert!(
            elsewhere.contains("redirected to another path, which is not followed"),
            "{elsewhere}"
        );
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        let hole = BlackHole::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let well = listener.local_addr().unwrap();
        let stream = to_any(&[hole.address, well], Duration::from_secs(2)).await;
        assert_eq!(stream.unwrap().peer_addr().unwrap(), well);
        let why = to_any(&[hole.address], Duration::from_millis(10))
            .await
            .unwrap_err();
        assert!(why.contains(&hole.address.to_string()), "{why}");
    }
}
