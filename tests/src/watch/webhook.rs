//! Where Alertmanager's notifications arrive.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// One alert of one notification.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: Instant,
    pub alert: String,
    /// `firing` or `resolved`.
    pub status: String,
    pub labels: Value,
    pub annotations: Value,
}

/// Listens until it is dropped.
pub struct Webhook {
    port: u16,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    serving: AbortHandle,
}

impl Webhook {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a port for the webhook");
        let port = listener.local_addr().expect("a bound address").port();
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let all = arrivals.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let all = all.clone();
                tokio::spawn(async move {
                    if let Some(notification) = receive(stream).await {
                        all.lock()
                            .expect("no one panics with it")
                            .extend(alerts(&notification));
                    }
                });
            }
        })
        .abort_handle();
        Self {
            port,
            arrivals,
            serving,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// What has arrived so far, oldest first.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().expect("no one panics with it").clone()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn receive(mut stream: TcpStream) -> Option<Value> {
    let mut got = Vec::new();
    let body = loop {
        if stream.read_buf(&mut got).await.ok()? == 0 {
            return None;
        }
        let Some(head) = got.windows(4).position(|w| w == b"\r\n\r\n") else {
            continue;
        };
        let length = String::from_utf8_lossy(&got[..head]).lines().find_map(|l| {
            l.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse::<usize>()
                .ok()
        })?;
        if got.len() >= head + 4 + length {
            break got.split_off(head + 4);
        }
    };
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer).await.ok()?;
    serde_json::from_slice(&body).ok()
}

fn alerts(notification: &Value) -> Vec<Arrival> {
    let list = notification["alerts"].as_array().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    list.iter()
        .map(|a| Arrival {
            at: Instant::now(),
            alert: text(&a["labels"]["alertname"]),
            status: text(&a["status"]),
            labels: a["labels"].clone(),
            annotations: a["annotations"].clone(),
        })
        .collect()
}
