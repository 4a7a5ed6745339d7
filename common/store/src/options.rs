//! The options of a URL that tokio-postgres does not know, taken out of it: what secures the connection, and where
//! its secrets lie. Named as for libpq.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::error::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secured {
    /// By TLS, with the certificate and the host's name verified.
    Verified,
    /// By TLS, with the certificate verified and not who it is for.
    Chain,
    /// Not at all.
    Plain,
}

#[derive(Default)]
pub(crate) struct Extra {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
    sslcert: Option<String>,
    sslkey: Option<String>,
    pub passfile: Option<PathBuf>,
}

/// Files of a TLS connection: from the URL, else from the variables that libpq reads.
pub(crate) struct TlsFiles {
    pub root: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
}

impl Extra {
    fn take(&mut self, key: &str, value: &str) -> bool {
        let value = value.to_owned();
        match key {
            "sslmode" => self.sslmode = Some(value),
            "sslrootcert" => self.sslrootcert = Some(value),
            "sslcert" => self.sslcert = Some(value),
            "sslkey" => self.sslkey = Some(value),
            "passfile" => self.passfile = Some(PathBuf::from(value)),
            _ => return false,
        }
        true
    }

    /// Everything but `disable` verifies, `require` the host's name too. Without a word, servers on this machine are reached
    /// without TLS, all others with it.
    pub(crate) fn secured(&self, local: bool) -> Result<Secured, StoreError> {
        match self.sslmode.as_deref() {
            Some("verify-full" | "require") => Ok(Secured::Verified),
            Some("verify-ca") => Ok(Secured::Chain),
            Some("disable") => Ok(Secured::Plain),
            None if local => Ok(Secured::Plain),
            None => Ok(Secured::Verified),
            Some(weak @ ("prefer" | "allow")) => Err(StoreError::Config(format!(
                "sslmode={weak} could be downgraded by anybody in between: say verify-full, or disable to go without TLS"
            ))),
            Some(other) => Err(StoreError::Config(format!(
                "invalid sslmode {other:?}; expected disable, require, verify-ca, verify-full"
            ))),
        }
    }

    /// Errors: For half of a client certificate, and where every certificate that anybody can buy would do.
    pub(crate) fn tls_files(&self, secured: Secured) -> Result<TlsFiles, StoreError> {
        let of = |given: &Option<String>, variable: &str| {
            given
                .clone()
                .or_else(|| std::env::var(variable).ok())
                .filter(|f| !f.is_empty())
        };
        let files = TlsFiles {
            root: of(&self.sslrootcert, "PGSSLROOTCERT"),
            cert: of(&self.sslcert, "PGSSLCERT"),
            key: of(&self.sslkey, "PGSSLKEY"),
        };
        if files.cert.is_some() != files.key.is_some() {
            return Err(StoreError::Config(
                "a client certificate needs both sslcert and sslkey".to_owned(),
            ));
        }
        if secured == Secured::Chain && files.root.as_deref().is_none_or(|root| root == "system") {
            return Err(StoreError::Config(
                "sslmode=verify-ca believes every certificate of the trusted roots, and of the system's anybody can get one: \
                 name your own with sslrootcert=FILE, or say verify-full"
                    .to_owned(),
            ));
        }
        Ok(files)
    }
}

/// Takes the options out: tokio-postgres refuses `verify-full` and has none of the others.
pub(crate) fn split(url: &str) -> Result<(String, Extra), StoreError> {
    let mut extra = Extra::default();
    if !url.contains("://") {
        // key=value pairs; quoting matters only for values tokio-postgres reads itself.
        let mut took = false;
        let kept: Vec<&str> = url
            .split_whitespace()
            .filter(|pair| {
                let ours = pair
                    .split_once('=')
                    .is_some_and(|(k, v)| extra.take(k, v.trim_matches('\'')));
                took |= ours;
                !ours
            })
            .collect();
        let rest = if took { kept.join(" ") } else { url.to_owned() };
        return Ok((rest, extra));
    }
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), extra));
    };
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        // The pair is not repeated: it may be the tail of a password with a question mark in it.
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| StoreError::Config("an option of the URL has no value".to_owned()))?;
        let value = percent_decode_str(value)
            .decode_utf8()
            .map_err(|_| StoreError::Config("an option of the URL is not UTF-8".to_owned()))?;
        if !extra.take(key, &value) {
            kept.push(pair);
        }
    }
    let rest = if kept.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", kept.join("&"))
    };
    Ok((rest, extra))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_disable_and_a_server_on_this_machine_go_without_tls() {
        for (mode, local, wanted) in [
            ("", true, Some(Secured::Plain)),
            ("", false, Some(Secured::Verified)),
            ("sslmode=disable", false, Some(Secured::Plain)),
            ("sslmode=require", false, Some(Secured::Verified)),
            ("sslmode=verify-ca", true, Some(Secured::Chain)),
            ("sslmode=verify-full", true, Some(Secured::Verified)),
            ("sslmode=prefer", false, None),
            ("sslmode=prefer", true, None),
            ("sslmode=allow", true, None),
            ("sslmode=Verify-Full", false, None),
        ] {
            let (_, extra) = split(&format!("postgresql://u@h/d?{mode}")).unwrap();
            assert_eq!(extra.secured(local).ok(), wanted, "{mode} {local}");
        }
    }

    #[test]
    fn both_forms_lose_what_is_ours_and_keep_the_rest() {
        let (rest, extra) =
            split("postgresql://u@h/d?sslcert=%2Fa&application_name=x&passfile=/p&sslkey=/k").unwrap();
        assert_eq!(rest, "postgresql://u@h/d?application_name=x");
        assert_eq!(extra.sslcert.as_deref(), Some("/a"));
        assert_eq!(extra.sslkey.as_deref(), Some("/k"));
        assert_eq!(extra.passfile, Some(PathBuf::from("/p")));
        let (rest, extra) = split("host=h passfile='/p' user=u").unwrap();
        assert_eq!(
            (rest.as_str(), extra.passfile),
            ("host=h user=u", Some(PathBuf::from("/p")))
        );
    }

    #[test]
    fn a_bad_option_is_not_repeated() {
        let error = split("postgresql://u:ge?heim@h/d").err().unwrap();
        assert!(!error.to_string().contains("heim"), "{error}");
    }
}
