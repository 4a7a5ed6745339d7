//! TLS: verified against given or system roots, host name included.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::StoreError;

/// Where distributions keep the trusted roots as one file.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A connector that trusts `root` alone when given, else the system's roots, else Mozilla's. Without
/// `needed` no file is read: the connector is then never used.
pub(crate) fn connector(needed: bool, root: Option<&str>) -> Result<MakeRustlsConnect, StoreError> {
    let roots = if needed {
        trusted(root)?
    } else {
        RootCertStore::empty()
    };
    client(roots).map(MakeRustlsConnect::new)
}

/// TLS to others than the database: with `SSL_CERT_FILE`, else the system's roots, else Mozilla's.
///
/// # Errors
/// For a file of certificates that cannot be read.
pub fn outgoing() -> Result<ClientConfig, StoreError> {
    client(trusted(None)?)
}

fn trusted(root: Option<&str>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let given = root.filter(|r| *r != "system");
    if let Some(file) = given {
        if load(&mut roots, Path::new(file))? == 0 {
            return Err(StoreError::Config(format!(
                "sslrootcert {file} holds no certificate"
            )));
        }
        return Ok(roots);
    }
    let from_env = std::env::var("SSL_CERT_FILE").ok();
    let bundle = from_env
        .as_deref()
        .into_iter()
        .chain(BUNDLES.iter().copied())
        .find(|f| Path::new(f).exists());
    match bundle {
        Some(file) => {
            load(&mut roots, Path::new(file))?;
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    Ok(roots)
}

fn client(roots: RootCertStore) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| StoreError::Config(e.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn load(roots: &mut RootCertStore, file: &Path) -> Result<usize, StoreError> {
    let bad =
        |e: &dyn std::fmt::Display| StoreError::Config(format!("certificates in {}: {e}", file.display()));
    let pem = std::fs::read(file).map_err(|e| bad(&e))?;
    let certificates: Vec<CertificateDer<'static>> = rustls_pemfile::certs(&mut pem.as_slice())
        .collect::<Result<_, _>>()
        .map_err(|e| bad(&e))?;
    // System bundles may hold roots that this library refuses; the others still count.
    let (added, _refused) = roots.add_parsable_certificates(certificates);
    Ok(added)
}
