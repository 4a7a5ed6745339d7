//! The listener's certificate, read again on SIGHUP.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

/// What a file is read for.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The chain, PEM.
    Certificate,
    /// The private key, PEM.
    Key,
}

/// Reads one of the agent's own files, also one that is for root alone.
pub type ReadText = fn(&Path, Part) -> io::Result<String>;

/// A certificate in use.
pub struct Tls {
    /// The certificate and what stands between it and its root, in PEM.
    cert: PathBuf,
    key: PathBuf,
    read: ReadText,
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    pub fn load(cert: PathBuf, key: PathBuf, read: ReadText) -> Result<Self, String> {
        let acceptor = RwLock::new(acceptor(&cert, &key, read)?);
        Ok(Self {
            cert,
            key,
            read,
            acceptor,
        })
    }

    /// Takes over what the files hold now; with an error all stays as it was.
    /// Errors: As [`Tls::load`].
    pub fn reload(&self) -> Result<(), String> {
        let acceptor = acceptor(&self.cert, &self.key, self.read)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let acceptor = self.acceptor.read().unwrap_or_else(PoisonError::into_inner);
        acceptor.clone()
    }
}

fn acceptor(cert: &Path, key: &Path, text_of: ReadText) -> Result<TlsAcceptor, String> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let bad = |why: &dyn std::fmt::Display| wrong(cert, why);
    let text = text_of(cert, Part::Certificate).map_err(|e| bad(&e))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| bad(&e))?;
    if chain.is_empty() {
        return Err(bad(&"there is no certificate in it"));
    }
    let text = text_of(key, Part::Key).map_err(|e| wrong(key, &e))?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|e| wrong(key, &e))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| bad(&e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
