//! Where webhooks and signs of life arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::tls::{Certificate, acceptor};

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    pub path: String,
    /// By name in small letters.
    pub headers: BTreeMap<String, String>,
    /// Null for a body that is no JSON.
    pub body: Value,
}

impl Call {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// `event` of the message.
    pub fn event(&self) -> &str {
        self.body["event"].as_str().unwrap_or_default()
    }
}

/// What requests are answered with from now on.
#[derive(Clone, Debug)]
pub enum Answer {
    Status(u16),
    /// A redirect to this place.
    Redirect(String),
    /// None, while the connection stays open.
    Silence,
}

/// Listens until it is dropped.
pub struct Hook {
    port: u16,
    tls: bool,
    calls: Arc<Mutex<Vec<Call>>>,
    answer: Arc<Mutex<Answer>>,
    serving: AbortHandle,
}

impl Hook {
    pub async fn start() -> Self {
        Self::serve(None).await
    }

    pub async fn start_tls(certificate: &Certificate) -> Self {
        Self::serve(Some(acceptor(certificate))).await
    }

    async fn serve(acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("a bound address").port();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(Mutex::new(Answer::Status(200)));
        let (all, how, tls) = (calls.clone(), answer.clone(), acceptor.is_some());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (all, how, acceptor) = (all.clone(), how.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, &all, &how).await,
                        Some(acceptor) => {
                            let stream = acceptor.accept(stream).await.ok()?;
                            serve(stream, &all, &how).await
                        }
                    }
                });
            }
        })
        .abort_handle();
        Self {
            port,
            tls,
            calls,
            answer,
            serving,
        }
    }

    pub fn url(&self, path: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://localhost:{}{path}", self.port)
    }

    /// Every request so far, answered or not.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no one panics with it").clone()
    }

    pub fn answer(&self, answer: Answer) {
        *self.answer.lock().expect("no one panics with it") = answer;
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    all: &Mutex<Vec<Call>>,
    how: &Mutex<Answer>,
) -> Option<()> {
    let call = receive(&mut stream).await?;
    all.lock().expect("no one panics with it").push(call);
    let answer = how.lock().expect("no one panics with it").clone();
    let head = match answer {
        Answer::Status(status) => format!("HTTP/1.1 {status} So\r\nContent-Length: 7"),
        Answer::Redirect(to) => format!("HTTP/1.1 307 So\r\nLocation: {to}\r\nContent-Length: 7"),
        Answer::Silence => return std::future::pending().await,
    };
    let text = format!("{head}\r\nConnection: close\r\n\r\nanswer\n");
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Option<Call> {
    let mut got = Vec::new();
    loop {
        if stream.read_buf(&mut got).await.ok()? == 0 {
            return None;
        }
        let Some(end) = got.windows(4).position(|w| w == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&got[..end]).into_owned();
        let mut lines = head.lines();
        let mut words = lines.next()?.split(' ').map(str::to_owned);
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers
            .get("content-length")
            .map_or(0, |l| l.parse().unwrap_or(0));
        if got.len() >= end + 4 + length {
            return Some(Call {
                method: words.next()?,
                path: words.next()?,
                headers,
                body: serde_json::from_slice(&got[end + 4..]).unwrap_or(Value::Null),
            });
        }
    }
}
