//! Hands a mail to a relay.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mail_send::smtp::AssertReply;
use mail_send::smtp::message::Parameters;
use mail_send::{Credentials, SmtpClient};
use smtp_proto::{AUTH_LOGIN, AUTH_PLAIN, EhloResponse, Response};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::rustls::ClientConfig;

use super::{post, secrets};
use farmhand_warden_client::helper::Purpose;

/// The whole conversation: a server may take long to look at what it is given.
const CONVERSATION: Duration = Duration::from_secs(60);

/// How mail leaves this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smtp {
    pub host: String,
    pub port: u16,
    pub tls: SmtpTls,
    /// The login; without one none is used.
    pub user: Option<String>,
    /// Read anew for each mail.
    pub password_file: Option<PathBuf>,
    pub from: String,
}

/// How the connection to a mail relay is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpTls {
    /// From the first byte.
    Implicit,
    /// Asked for with STARTTLS, and insisted on.
    Starttls,
    /// For a relay on this machine.
    None,
}

/// Hands one mail over; the connection may take as long as `limit`. `Ok` holds what the server said of recipients that it refused while it took the mail for
/// others; `Err` says in a sentence why it has not taken it.
pub(crate) async fn send(
    smtp: &Smtp,
    tls: &Arc<ClientConfig>,
    to: &[String],
    mail: &str,
    limit: Duration,
) -> Result<Option<String>, String> {
    let at = format!("{}:{}", smtp.host, smtp.port);
    match tokio::time::timeout(CONVERSATION, converse(smtp, tls, to, mail, limit)).await {
        Ok(result) => result.map_err(|why| format!("{at}: {why}")),
        Err(_) => Err(format!("{at}: no answer within {CONVERSATION:?}")),
    }
}

async fn converse(
    smtp: &Smtp,
    tls: &Arc<ClientConfig>,
    to: &[String],
    mail: &str,
    limit: Duration,
) -> Result<Option<String>, String> {
    let stream = post::connect(&smtp.host, smtp.port, limit).await?;
    match smtp.tls {
        SmtpTls::Implicit => {
            let mut client = greeted(post::secured(tls, &smtp.host, stream).await?).await?;
            deliver(&mut client, smtp, to, mail).await
        }
        SmtpTls::Starttls => {
            let mut client = greeted(stream).await?;
            let offers = hello(&mut client).await?;
            if !offers.has_capability(smtp_proto::EXT_START_TLS) {
                return Err("it offers no STARTTLS".to_owned());
            }
            let answer = client.cmd(b"STARTTLS\r\n").await;
            expected(answer, "STARTTLS")?;
            let stream = post::secured(tls, &smtp.host, client.stream).await?;
            deliver(&mut over(stream), smtp, to, mail).await
        }
        SmtpTls::None => deliver(&mut greeted(stream).await?, smtp, to, mail).await,
    }
}

fn over<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> SmtpClient<S> {
    SmtpClient {
        stream,
        // The whole conversation is bounded by `send`.
        timeout: Duration::MAX,
    }
}

async fn greeted<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Result<SmtpClient<S>, String> {
    let mut client = over(stream);
    let greeting = client.read().await;
    expected(greeting, "the connection")?;
    Ok(client)
}

/// What the server offers.
async fn hello<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut SmtpClient<S>,
) -> Result<EhloResponse<String>, String> {
    let name = gethostname::gethostname().to_string_lossy().into_owned();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
    let name = if !name.is_empty() && name.bytes().all(plain) {
        name.as_str()
    } else {
        "localhost"
    };
    client.ehlo(name).await.map_err(|e| failed(e, "EHLO"))
}

async fn deliver<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut SmtpClient<S>,
    smtp: &Smtp,
    to: &[String],
    mail: &str,
) -> Result<Option<String>, String> {
    let mut offers = hello(client).await?;
    if let Some(user) = &smtp.user {
        let Some(file) = &smtp.password_file else {
            return Err("[smtp] has a user and no password_file".to_owned());
        };
        let password = secrets::read(file, Purpose::MailPassword)?;
        let password = password.trim_end_matches(['\r', '\n']);
        offers.auth_mechanisms &= AUTH_PLAIN | AUTH_LOGIN;
        client
            .authenticate(Credentials::new(user.as_str(), password), offers)
            .await
            .map_err(|e| failed(e, "the log-in"))?;
    }
    let none = Parameters::new();
    let sender = client.mail_from(&smtp.from, &none).await;
    sender.map_err(|e| failed(e, "MAIL FROM"))?;
    let mut refused = Vec::new();
    for address in to {
        if let Err(e) = client.rcpt_to(address, &none).await {
            refused.push(failed(e, &format!("RCPT TO:<{address}>")));
        }
    }
    let refusals = refused.join("; ");
    if refused.len() == to.len() {
        return Err(refusals);
    }
    client.data(mail).await.map_err(|e| failed(e, "the mail"))?;
    // The mail has been taken: nothing is waited for any more.
    let _ = client.stream.write_all(b"QUIT\r\n").await;
    let _ = client.stream.flush().await;
    Ok((!refusals.is_empty()).then_some(refusals))
}

fn expected(answer: mail_send::Result<Response<String>>, to: &str) -> Result<(), String> {
    let taken = answer.and_then(AssertReply::assert_positive_completion);
    taken.map_err(|e| failed(e, to))
}

/// Why it has not gone on, in a sentence.
fn failed(error: mail_send::Error, to: &str) -> String {
    use mail_send::Error;
    match error {
        Error::UnexpectedReply(reply) | Error::AuthenticationFailed(reply) => {
            let text = format!("{} {}", reply.code, reply.message);
            let shown: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
            format!("it answered {to} with {shown}")
        }
        Error::UnsupportedAuthMechanism => "it offers neither AUTH PLAIN nor AUTH LOGIN".to_owned(),
        Error::UnparseableReply => format!("it hung up, or does not speak SMTP: no answer to {to}"),
        other => format!("{to}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_mail_that_was_taken_is_sent_whatever_becomes_of_the_farewell() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let relay = tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            stream.write_all(b"220 ready\r\n").await.unwrap();
            let mut said = String::new();
            while !said.ends_with("QUIT\r\n") {
                let at = said.len();
                stream.read_line(&mut said).await.unwrap();
                let answer = match &said[at..] {
                    line if line.starts_with("DATA") => "354 go on\r\n",
                    ".\r\n" => "250 taken\r\n",
                    line if ["EHLO", "MAIL", "RCPT"].iter().any(|word| line.starts_with(word)) => {
                        "250 yes\r\n"
                    }
                    _ => continue,
                };
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let smtp = Smtp {
            host: "127.0.0.1".to_owned(),
            port,
            tls: SmtpTls::None,
            user: None,
            password_file: None,
            from: "farm@example.org".to_owned(),
        };
        let tls = Arc::new(farmhand_store::tls::outgoing().unwrap());
        let to = ["ops@example.org".to_owned()];
        let sent = send(
            &smtp,
            &tls,
            &to,
            "Subject: x\r\n\r\ny\r\n",
            Duration::from_secs(10),
        )
        .await;
        assert_eq!(sent, Ok(None));
        relay.abort();
    }
}
