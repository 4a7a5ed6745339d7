//! TLS: verified against given or system roots, host name included.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::StoreError;
use super::options::TlsFiles;

/// Where distributions keep the trusted roots as one file.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A connector that trusts the given root alone, else the system's roots, else Mozilla's, and shows the client's
/// certificate where there is one.
pub(crate) fn connector(files: &TlsFiles) -> Result<MakeRustlsConnect, StoreError> {
    let roots = trusted(files.root.as_deref())?;
    let identity = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => Some(identity(Path::new(cert), Path::new(key))?),
        _ => None,
    };
    client(roots, identity).map(MakeRustlsConnect::new)
}

/// TLS to others than the database: with `SSL_CERT_FILE`, else the system's roots, else Mozilla's.
///
/// # Errors
/// For a file of certificates that cannot be read.
pub fn outgoing() -> Result<ClientConfig, StoreError> {
    client(trusted(None)?, None)
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

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client(roots: RootCertStore, identity: Option<Identity>) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| StoreError::Config(e.to_string()))?
        .with_root_certificates(roots);
    match identity {
        Some((certificates, key)) => config
            .with_client_auth_cert(certificates, key)
            .map_err(|e| StoreError::Config(format!("the client certificate: {e}"))),
        None => Ok(config.with_no_client_auth()),
    }
}

/// The client's certificate and its key, which nobody else may read (root may leave it to its group, as for libpq).
fn identity(cert: &Path, key: &Path) -> Result<Identity, StoreError> {
    let unfit = |why: String| StoreError::Config(format!("sslkey {}: {why}", key.display()));
    let about = std::fs::metadata(key).map_err(|e| unfit(e.to_string()))?;
    let others = if about.uid() == 0 { 0o027 } else { 0o077 };
    if about.mode() & others != 0 {
        return Err(unfit("others may read it (chmod 0600)".to_owned()));
    }
    let pem = std::fs::read(key).map_err(|e| unfit(e.to_string()))?;
    let found = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| match e {
        pem::Error::NoItemsFound => unfit("it holds no private key, or one under a passphrase".to_owned()),
        other => unfit(other.to_string()),
    })?;
    let chain = certificates(cert)?;
    if chain.is_empty() {
        return Err(StoreError::Config(format!(
            "sslcert {} holds no certificate",
            cert.display()
        )));
    }
    Ok((chain, found))
}

fn load(roots: &mut RootCertStore, file: &Path) -> Result<usize, StoreError> {
    // System bundles may hold roots that this library refuses; the others still count.
    let (added, _refused) = roots.add_parsable_certificates(certificates(file)?);
    Ok(added)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let bad =
        |e: &dyn std::fmt::Display| StoreError::Config(format!("certificates in {}: {e}", file.display()));
    let pem = std::fs::read(file).map_err(|e| bad(&e))?;
    CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| bad(&e))
}
