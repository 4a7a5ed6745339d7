//! TLS as servers of a test speak it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate for `localhost` signed by itself, and its key.
pub struct Certificate {
    pub file: PathBuf,
    key: PathBuf,
}

impl Certificate {
    /// # Panics
    /// Without openssl.
    pub fn new(dir: &Path) -> Self {
        let (file, key) = (dir.join("localhost.crt"), dir.join("localhost.key"));
        let out = std::process::Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args(["-nodes", "-days", "2", "-subj", "/CN=test", "-addext"])
            .args([
                "subjectAltName=DNS:localhost",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&file)
            .output()
            .expect("this test needs openssl: apt-get install openssl");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Self { file, key }
    }
}

pub(super) fn acceptor(certificate: &Certificate) -> TlsAcceptor {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&certificate.file)
        .expect("the certificate")
        .collect::<Result<_, _>>()
        .expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(&certificate.key).expect("the key");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate with its key");
    TlsAcceptor::from(Arc::new(config))
}
