//! The listener's certificate, read again on SIGHUP.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use crate::steward;

/// Where certificate and key lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and what stands between it and its root, in PEM.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A certificate in use.
pub struct Tls {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    /// # Errors
    /// What is wrong with the files, in a sentence.
    pub fn load(files: TlsFiles) -> Result<Self, String> {
        let acceptor = RwLock::new(read(&files)?);
        Ok(Self { files, acceptor })
    }

    /// Takes over what the files hold now; with an error all stays as it was.
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub fn reload(&self) -> Result<(), String> {
        let acceptor = read(&self.files)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let acceptor = self.acceptor.read().unwrap_or_else(PoisonError::into_inner);
        acceptor.clone()
    }
}

fn read(files: &TlsFiles) -> Result<TlsAcceptor, String> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let cert = |why: &dyn std::fmt::Display| wrong(&files.cert, why);
    let text = steward::text_of(&files.cert).map_err(|e| cert(&e))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| cert(&e))?;
    if chain.is_empty() {
        return Err(cert(&"there is no certificate in it"));
    }
    let text = steward::text_of(&files.key).map_err(|e| wrong(&files.key, &e))?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|e| wrong(&files.key, &e))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| cert(&e))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| cert(&e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
