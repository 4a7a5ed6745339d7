//! Where mail arrives: as much of an SMTP server as it takes.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// A mail that was taken.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    /// What the sender logged in with, as it came.
    pub login: Option<String>,
    pub text: String,
}

/// Listens until it is dropped. Offers AUTH PLAIN, and refuses recipients that begin with `nobody`.
pub struct Mailbox {
    port: u16,
    mails: Arc<Mutex<Vec<Mail>>>,
    serving: AbortHandle,
}

impl Mailbox {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("a bound address").port();
        let mails = Arc::new(Mutex::new(Vec::new()));
        let all = mails.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let all = all.clone();
                tokio::spawn(async move { converse(stream, &all).await });
            }
        })
        .abort_handle();
        Self { port, mails, serving }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn mails(&self) -> Vec<Mail> {
        self.mails.lock().expect("no one panics with it").clone()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn converse(stream: TcpStream, all: &Mutex<Vec<Mail>>) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    say(&mut write, "220 mailbox ready").await?;
    let mut mail = Mail::default();
    loop {
        let line = lines.next_line().await.ok()??;
        let (word, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
        let answer = match (word, rest) {
            ("EHLO", _) => "250-mailbox\r\n250-8BITMIME\r\n250 AUTH LOGIN PLAIN",
            ("AUTH", login) => {
                mail.login = Some(login.to_owned());
                "235 welcome"
            }
            ("MAIL", from) => {
                from.clone_into(&mut mail.from);
                "250 yes"
            }
            ("RCPT", to) if to.contains("<nobody") => "550 there is no such person",
            ("RCPT", to) => {
                mail.to.push(to.to_owned());
                "250 yes"
            }
            ("DATA", _) => {
                say(&mut write, "354 go on").await?;
                mail.text = data(&mut lines).await?;
                all.lock()
                    .expect("no one panics with it")
                    .push(std::mem::take(&mut mail));
                "250 taken"
            }
            ("QUIT", _) => "221 bye",
            _ => "500 what?",
        };
        say(&mut write, answer).await?;
    }
}

async fn data(lines: &mut Lines<BufReader<OwnedReadHalf>>) -> Option<String> {
    let mut text = String::new();
    loop {
        let line = lines.next_line().await.ok()??;
        if line == "." {
            return Some(text);
        }
        text.push_str(line.strip_prefix('.').unwrap_or(&line));
        text.push('\n');
    }
}

async fn say(write: &mut OwnedWriteHalf, text: &str) -> Option<()> {
    write.write_all(format!("{text}\r\n").as_bytes()).await.ok()
}
