//! Where mail arrives: as much of an SMTP server as it takes.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::tls::{Certificate, acceptor};

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
        Self::serve(None).await
    }

    /// Takes mail only after STARTTLS.
    pub async fn start_tls(certificate: &Certificate) -> Self {
        Self::serve(Some(acceptor(certificate))).await
    }

    async fn serve(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("a bound address").port();
        let mails = Arc::new(Mutex::new(Vec::new()));
        let all = mails.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (all, tls) = (all.clone(), tls.clone());
                tokio::spawn(async move { converse(stream, tls, &all).await });
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

async fn converse(stream: TcpStream, tls: Option<TlsAcceptor>, all: &Mutex<Vec<Mail>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    say(&mut stream, "220 mailbox ready").await?;
    session(&mut stream, all, tls.is_some()).await?;
    let mut stream = BufReader::new(tls?.accept(stream.into_inner()).await.ok()?);
    session(&mut stream, all, false).await
}

/// Until STARTTLS or the end; before TLS no log-in is offered.
async fn session<S>(stream: &mut BufReader<S>, all: &Mutex<Vec<Mail>>, clear: bool) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut mail = Mail::default();
    loop {
        let line = line(stream).await?;
        let (word, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
        let answer = match (word, rest) {
            ("EHLO", _) if clear => "250-mailbox\r\n250 STARTTLS",
            ("EHLO", _) => "250-mailbox\r\n250-8BITMIME\r\n250 AUTH LOGIN PLAIN",
            ("STARTTLS", _) if clear => return say(stream, "220 go on").await,
            (_, _) if clear => "530 not before STARTTLS",
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
                say(stream, "354 go on").await?;
                mail.text = data(stream).await?;
                all.lock()
                    .expect("no one panics with it")
                    .push(std::mem::take(&mut mail));
                "250 taken"
            }
            ("QUIT", _) => "221 bye",
            _ => "500 what?",
        };
        say(stream, answer).await?;
    }
}

async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut line = String::new();
    match stream.read_line(&mut line).await.ok()? {
        0 => None,
        _ => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

async fn data(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut text = String::new();
    loop {
        let line = line(stream).await?;
        if line == "." {
            return Some(text);
        }
        text.push_str(line.strip_prefix('.').unwrap_or(&line));
        text.push('\n');
    }
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), text: &str) -> Option<()> {
    stream.write_all(format!("{text}\r\n").as_bytes()).await.ok()?;
    stream.flush().await.ok()
}
