//! Addresses that messages may go to: as much of RFC 3986 and RFC 5321 as is needed, and nothing doubtful.

/// An http or https URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port, 80 or 443 where none is written.
    pub port: u16,
    /// As the Host header has it.
    pub authority: String,
    /// With its query; begins with a slash.
    pub path: String,
}

impl Url {
    /// Reads a URL.
    /// Errors: What is wrong with it, never repeating it: its path may be a secret.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > 2_000 {
            return Err("it is empty, or longer than 2000 bytes");
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("it holds spaces or other characters that must be percent-encoded");
        }
        let (tls, rest) = if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else if let Some(rest) = text.strip_prefix("http://") {
            (false, rest)
        } else {
            return Err("it does not begin with https:// or http://");
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("it holds a user or a password: they belong into `headers_file`");
        }
        let (host, port) = host_and_port(authority, if tls { 443 } else { 80 })?;
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            tls,
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            path: format!("{slash}{path}"),
        })
    }

    /// Without the path, which may be a secret.
    pub fn shown(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }
}

fn host_and_port(authority: &str, default: u16) -> Result<(&str, u16), &'static str> {
    const NO_PORT: &str = "what follows the colon is not a valid port";
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("its bracket is not closed")?;
            host.parse::<std::net::Ipv6Addr>()
                .map_err(|_| "what is in brackets is not an IPv6 address")?;
            match rest.strip_prefix(':') {
                None if rest.is_empty() => (host, None),
                None => return Err(NO_PORT),
                port => (host, port),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let named = |b: u8| b.is_ascii_alphanumeric() || b".-_:".contains(&b);
    if host.is_empty() || !host.bytes().all(named) {
        return Err("it names no host");
    }
    let port = match port {
        None => default,
        Some(port) => port.parse().ok().filter(|p| *p > 0).ok_or(NO_PORT)?,
    };
    Ok((host, port))
}

/// Whether mail can be sent to it as it is written: `name@host`, without a display name.
pub fn email_address(text: &str) -> Result<(), &'static str> {
    let Some((name, host)) = text.rsplit_once('@') else {
        return Err("it has no @");
    };
    let odd = |b: u8| !b.is_ascii_graphic() || b"<>()[],;:\\\"@".contains(&b);
    if name.is_empty() || host.is_empty() || text.len() > 254 {
        return Err("it is not of the form name@host");
    }
    if name.bytes().any(odd) || host.bytes().any(odd) {
        return Err("it holds characters that no plain address has; a display name is not wanted");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url = Url::parse("https://hooks.example:8443/a/b?c=d#e").unwrap();
        assert_eq!(
            (url.tls, url.host.as_str(), url.port, url.path.as_str()),
            (true, "hooks.example", 8443, "/a/b?c=d")
        );
        assert_eq!(url.shown(), "https://hooks.example:8443");
        let bare = Url::parse("http://[::1]:80?x").unwrap();
        assert_eq!(
            (bare.host.as_str(), bare.port, bare.path.as_str()),
            ("::1", 80, "/?x")
        );
        assert_eq!(Url::parse("https://h").unwrap().port, 443);
    }

    #[test]
    fn what_is_no_url_is_refused_without_repeating_it() {
        for bad in [
            "",
            "hooks.example/x",
            "ftp://h/",
            "https://",
            "https:///secret",
            "https://h:0/secret",
            "https://h:x/secret",
            "https://h h/secret",
            "https://u:secret@h/",
            "http://[::1/secret",
            "http://[nine]/secret",
            "https://h/\nsecret",
        ] {
            let why = Url::parse(bad).unwrap_err();
            assert!(!why.contains("secret"), "{bad}: {why}");
        }
    }

    #[test]
    fn an_address_is_what_can_be_sent_to() {
        assert_eq!(email_address("ops@example.org"), Ok(()));
        assert_eq!(email_address("a.b+c@localhost"), Ok(()));
        for bad in [
            "ops",
            "@x",
            "x@",
            "Ops <ops@x>",
            "a@b@c",
            "a b@c",
            "ops@x\r\nRCPT TO:<y@z>",
        ] {
            assert!(email_address(bad).is_err(), "{bad}");
        }
    }
}
