//! As much of a browser as it takes to measure.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Asks one agent, each time on a new connection.
#[derive(Clone)]
pub struct Client {
    port: u16,
    token: String,
}

pub struct Answer {
    pub status: u16,
    /// As it came; compressed when that was asked for.
    pub body: Vec<u8>,
    /// From connecting to the last byte.
    pub took: Duration,
}

impl Client {
    pub fn new(port: u16, token: &str) -> Self {
        Self {
            port,
            token: token.to_owned(),
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(path, "identity").await
    }

    pub async fn get_compressed(&self, path: &str) -> Answer {
        self.ask(path, "gzip").await
    }

    async fn ask(&self, path: &str, encoding: &str) -> Answer {
        let began = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))
            .await
            .expect("the agent listens");
        // 1.0: the body comes in one piece and ends with the connection.
        let request = format!(
            "GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept-Encoding: {encoding}\r\n\r\n",
            self.token
        );
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a request is sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("an answer");
        let took = began.elapsed();
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = (head.split(' ').nth(1))
            .and_then(|word| word.parse().ok())
            .expect("a status");
        Answer {
            status,
            body: bytes.split_off(end + 4),
            took,
        }
    }
}
