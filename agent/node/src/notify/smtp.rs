//! As much of SMTP (RFC 5321, STARTTLS of RFC 3207, AUTH of RFC 4954) as it takes to hand a mail to a relay.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ClientConfig;

use super::{post, secrets};
use farmhand_warden_client::privsep::Purpose;

/// The longest line of a reply that is read, and the most lines.
const REPLY_LINE: u64 = 2_048;
const REPLY_LINES: usize = 100;

/// How mail leaves this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smtp {
    pub host: String,
    pub port: u16,
    pub tls: SmtpTls,
    pub user: Option<String>,
    /// Read anew for each mail.
    pub password_file: Option<PathBuf>,
    /// The sender.
    pub from: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpTls {
    /// From the first byte.
    Implicit,
    /// Asked for with STARTTLS, and insisted on.
    Starttls,
    /// For a relay on this machine.
    None,
}

/// Hands one mail over. `Ok` holds what the server said of recipients that it refused while it took the mail for
/// others; `Err` says in a sentence why it has not taken it.
pub async fn send(
    smtp: &Smtp,
    tls: &Arc<ClientConfig>,
    to: &[String],
    mail: &str,
    limit: Duration,
) -> Result<Option<String>, String> {
    let at = format!("{}:{}", smtp.host, smtp.port);
    match tokio::time::timeout(limit, converse(smtp, tls, to, mail)).await {
        Ok(result) => result.map_err(|why| format!("{at}: {why}")),
        Err(_) => Err(format!("{at}: no answer within {limit:?}")),
    }
}

async fn converse(
    smtp: &Smtp,
    tls: &Arc<ClientConfig>,
    to: &[String],
    mail: &str,
) -> Result<Option<String>, String> {
    let stream = TcpStream::connect((smtp.host.as_str(), smtp.port))
        .await
        .map_err(|e| format!("cannot connect: {e}"))?;
    match smtp.tls {
        SmtpTls::Implicit => {
            let stream = post::secured(tls, &smtp.host, stream).await?;
            let mut talk = Talk::begin(stream).await?;
            let offers = talk.hello().await?;
            talk.deliver(smtp, &offers, to, mail).await
        }
        SmtpTls::Starttls => {
            let mut talk = Talk::begin(stream).await?;
            if !talk.hello().await?.iter().any(|o| o == "STARTTLS") {
                return Err("it offers no STARTTLS".to_owned());
            }
            talk.command("STARTTLS", 220).await?;
            // What came in clear behind the answer was not said by whom TLS proves.
            if !talk.0.buffer().is_empty() {
                return Err("it said more than its answer to STARTTLS".to_owned());
            }
            let stream = post::secured(tls, &smtp.host, talk.0.into_inner()).await?;
            let mut talk = Talk(BufReader::new(stream));
            let offers = talk.hello().await?;
            talk.deliver(smtp, &offers, to, mail).await
        }
        SmtpTls::None => {
            let mut talk = Talk::begin(stream).await?;
            let offers = talk.hello().await?;
            talk.deliver(smtp, &offers, to, mail).await
        }
    }
}

/// A conversation, each command answered before the next.
struct Talk<S: AsyncRead + AsyncWrite>(BufReader<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    async fn begin(stream: S) -> Result<Self, String> {
        let mut talk = Self(BufReader::new(stream));
        talk.expect("its greeting", 220).await?;
        Ok(talk)
    }

    /// What the server offers, in capitals.
    async fn hello(&mut self) -> Result<Vec<String>, String> {
        let name = gethostname::gethostname().to_string_lossy().into_owned();
        let plain = !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
        let name = if plain { name.as_str() } else { "localhost" };
        let offers = self.command(&format!("EHLO {name}"), 250).await?;
        Ok(offers.into_iter().map(|o| o.to_ascii_uppercase()).collect())
    }

    async fn deliver(
        &mut self,
        smtp: &Smtp,
        offers: &[String],
        to: &[String],
        mail: &str,
    ) -> Result<Option<String>, String> {
        if let Some(user) = &smtp.user {
            self.log_in(smtp, user, offers).await?;
        }
        self.command(&format!("MAIL FROM:<{}>", smtp.from), 250).await?;
        let mut refused = Vec::new();
        for address in to {
            if let Err(why) = self.command(&format!("RCPT TO:<{address}>"), 250).await {
                refused.push(why);
            }
        }
        let refusals = refused.join("; ");
        if refused.len() == to.len() {
            return Err(refusals);
        }
        self.command("DATA", 354).await?;
        self.write(&stuffed(mail)).await?;
        self.expect("the mail", 250).await?;
        // The mail has been taken, whatever becomes of the farewell.
        let _ = self.command("QUIT", 221).await;
        Ok((!refusals.is_empty()).then_some(refusals))
    }

    async fn log_in(&mut self, smtp: &Smtp, user: &str, offers: &[String]) -> Result<(), String> {
        let password = match &smtp.password_file {
            Some(file) => secrets::read(file, Purpose::MailPassword)?,
            None => return Err("[smtp] has a user and no password_file".to_owned()),
        };
        let password = password.trim_end_matches(['\r', '\n']);
        let ways: Vec<&str> = (offers.iter())
            .filter_map(|offer| offer.strip_prefix("AUTH "))
            .flat_map(str::split_whitespace)
            .collect();
        if ways.contains(&"PLAIN") {
            let token = STANDARD.encode(format!("\0{user}\0{password}"));
            self.write(&format!("AUTH PLAIN {token}\r\n")).await?;
        } else if ways.contains(&"LOGIN") {
            self.command("AUTH LOGIN", 334).await?;
            self.write(&format!("{}\r\n", STANDARD.encode(user))).await?;
            self.expect("the user", 334).await?;
            self.write(&format!("{}\r\n", STANDARD.encode(password))).await?;
        } else {
            return Err("it offers neither AUTH PLAIN nor AUTH LOGIN".to_owned());
        }
        self.expect("the log-in", 235).await.map(drop)
    }

    async fn command(&mut self, command: &str, wanted: u16) -> Result<Vec<String>, String> {
        self.write(&format!("{command}\r\n")).await?;
        self.expect(command, wanted).await
    }

    async fn write(&mut self, text: &str) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("the connection broke: {e}");
        self.0.write_all(text.as_bytes()).await.map_err(failed)?;
        self.0.flush().await.map_err(failed)
    }

    /// The lines of a reply, without their code. 251 (it will forward) is as good as 250.
    async fn expect(&mut self, to: &str, wanted: u16) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        loop {
            let mut raw = Vec::new();
            let mut limited = (&mut self.0).take(REPLY_LINE);
            let got = limited.read_until(b'\n', &mut raw).await;
            if got.map_err(|e| format!("the connection broke: {e}"))? == 0 || raw.last() != Some(&b'\n') {
                return Err(format!("it hung up instead of answering {to}"));
            }
            let line = String::from_utf8_lossy(&raw);
            let line = line.trim_end();
            let code = line.get(..3).and_then(|code| code.parse::<u16>().ok());
            let Some(code) = code else {
                return Err(format!("it does not speak SMTP: {}", shown(line)));
            };
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) == Some(&b'-') && lines.len() < REPLY_LINES {
                continue;
            }
            if code == wanted || (wanted == 250 && code == 251) {
                return Ok(lines);
            }
            return Err(format!("it answered {to} with {}", shown(line)));
        }
    }
}

/// Of a reply, as much as belongs into a sentence.
fn shown(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Lines that begin with a dot get another one; the mail ends with a dot alone.
fn stuffed(mail: &str) -> String {
    let mut out = String::with_capacity(mail.len() + 16);
    for line in mail.split_terminator("\r\n") {
        if line.starts_with('.') {
            out.push('.');
        }
        out.push_str(line);
        out.push_str("\r\n");
    }
    out.push_str(".\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_doubled_and_a_dot_ends_the_mail() {
        assert_eq!(stuffed("a\r\n.b\r\n..\r\n"), "a\r\n..b\r\n...\r\n.\r\n");
    }
}
