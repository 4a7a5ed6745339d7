//! `secrets_dir`, `[smtp]` and `[ping]`: how people are told. In the file and the environment, not on command lines.

use std::path::PathBuf;
use std::time::Duration;

use farmhand_core::document::parse_duration;
use farmhand_core::notify::{Url, email_address};

use super::Merge;
use super::values::*;
use farmhand_node::notify::{Outside, Ping, PingUrl, Smtp, SmtpTls};

/// Where units and packages keep what targets name.
const SECRETS_DIR: &str = "/etc/farmhand/secrets";

/// For keys that are none.
pub(super) const HINTS: &[(&str, &str)] = &[
    ("server", "did you mean `host`?"),
    ("password", "write it into a file of its own: `password_file`"),
    ("username", "did you mean `user`?"),
    ("interval", "did you mean `every`?"),
];

impl Merge<'_> {
    pub(super) fn outside(&mut self) -> Option<Outside> {
        let secrets_dir = self.setting("secrets_dir", directory, || Ok(PathBuf::from(SECRETS_DIR)));
        let smtp = self.smtp();
        let ping = self.ping();
        Some(Outside {
            secrets_dir: secrets_dir?,
            smtp: smtp?,
            ping: ping?,
        })
    }

    fn smtp(&mut self) -> Option<Option<Smtp>> {
        let host = self.optional("smtp.host", name);
        let port = self.setting("smtp.port", port, || Ok(587));
        let tls = self.optional("smtp.tls", smtp_tls);
        let user = self.optional("smtp.user", name);
        let password_file = self.optional("smtp.password_file", directory);
        let from = self.optional("smtp.from", address);
        let (host, port, tls, user) = (host?, port?, tls?, user?);
        let (password_file, from) = (password_file?, from?);
        let (Some(host), Some(from)) = (host.clone(), from.clone()) else {
            if !self.tables.contains_key("smtp") && host.is_none() && from.is_none() {
                return Some(None);
            }
            self.mistakes
                .push("[smtp]: it needs `host` and `from`, the sender's address".to_owned());
            return None;
        };
        if user.is_some() != password_file.is_some() {
            self.mistakes
                .push("[smtp]: `user` and `password_file` need each other".to_owned());
            return None;
        }
        let tls = tls.unwrap_or(if port == 465 {
            SmtpTls::Implicit
        } else {
            SmtpTls::Starttls
        });
        let local = host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        if tls == SmtpTls::None && user.is_some() && !local {
            self.mistakes
                .push("[smtp]: a password is not sent to another machine without TLS".to_owned());
            return None;
        }
        Some(Some(Smtp {
            host,
            port,
            tls,
            user,
            password_file,
            from,
        }))
    }

    fn ping(&mut self) -> Option<Option<Ping>> {
        let url = self.optional("ping.url", url);
        let file = self.optional("ping.url_file", directory);
        let every = self.setting("ping.every", ping_every, || Ok(Duration::from_secs(60)))?;
        let to = match (url?, file?) {
            (Some(url), None) => PingUrl::Given(url),
            (None, Some(file)) => PingUrl::File(file),
            (None, None) if !self.tables.contains_key("ping") => return Some(None),
            _ => {
                self.mistakes
                    .push("[ping]: it needs either `url` or `url_file`".to_owned());
                return None;
            }
        };
        Some(Some(Ping { to, every }))
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| "write a port from 1 to 65535".to_owned())
}

fn smtp_tls(text: &str) -> Result<SmtpTls, String> {
    match text {
        "implicit" => Ok(SmtpTls::Implicit),
        "starttls" => Ok(SmtpTls::Starttls),
        "none" => Ok(SmtpTls::None),
        _ => Err("write implicit, starttls or none".to_owned()),
    }
}

fn address(text: &str) -> Result<String, String> {
    email_address(text)
        .map(|()| text.to_owned())
        .map_err(str::to_owned)
}

fn url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(str::to_owned)
}

fn ping_every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    if every < Duration::from_secs(1) || every > Duration::from_secs(86_400) {
        return Err("write a duration from 1s to 1d".to_owned());
    }
    Ok(every)
}
