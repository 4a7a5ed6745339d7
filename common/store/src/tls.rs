//! TLS: verified against given or system roots, and the host's name unless the URL leaves it out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::StoreError;
use super::files::{self, AsRoot, Unfit};
use super::options::TlsFiles;

/// Where distributions keep the trusted roots as one file.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How connections are secured by TLS. The files are read again for each, because certificates are replaced while an agent
/// runs; what they held last serves while they cannot be used.
pub(crate) struct Tls {
    files: TlsFiles,
    /// Whether the certificate must be the host's.
    name: bool,
    last: Mutex<MakeRustlsConnect>,
}

impl Tls {
    /// Trusts the given root alone, else the system's roots, else Mozilla's, and shows the client's certificate where there
    /// is one.
    pub(crate) fn new(files: TlsFiles, name: bool) -> Result<Self, StoreError> {
        let last = Mutex::new(connector(&files, name, None)?);
        Ok(Self { files, name, last })
    }

    /// With what the files hold now.
    pub(crate) fn now(&self, as_root: Option<AsRoot>) -> MakeRustlsConnect {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match connector(&self.files, self.name, as_root) {
            Ok(now) => *last = now,
            Err(error) => tracing::warn!("the certificates read before are used: {error}"),
        }
        last.clone()
    }

    /// Root, certificate and key.
    pub(crate) fn files(&self) -> [Option<PathBuf>; 3] {
        let of = |file: &Option<String>| file.as_deref().filter(|f| *f != "system").map(PathBuf::from);
        [&self.files.root, &self.files.cert, &self.files.key].map(of)
    }
}

fn connector(files: &TlsFiles, name: bool, as_root: Option<AsRoot>) -> Result<MakeRustlsConnect, StoreError> {
    let roots = trusted(files.root.as_deref(), as_root)?;
    let identity = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => Some(identity(Path::new(cert), Path::new(key), as_root)?),
        _ => None,
    };
    client(roots, name, identity).map(MakeRustlsConnect::new)
}

/// Believes a certificate that a trusted root has signed, whoever it is for.
#[derive(Debug)]
struct Chain {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Chain {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let cert = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&cert, &self.roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// TLS to others than the database: with `SSL_CERT_FILE`, else the system's roots, else Mozilla's.
pub fn outgoing() -> Result<ClientConfig, StoreError> {
    client(trusted(None, None)?, true, None)
}

fn unfit(file: &Path, why: String) -> StoreError {
    let file = file.to_owned();
    StoreError::File { file, why }
}

fn trusted(root: Option<&str>, as_root: Option<AsRoot>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let given = root.filter(|r| *r != "system");
    if let Some(file) = given {
        if load(&mut roots, Path::new(file), as_root)? == 0 {
            let why = format!("sslrootcert {file} holds no certificate");
            return Err(unfit(Path::new(file), why));
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
            load(&mut roots, Path::new(file), None)?;
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    Ok(roots)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client(roots: RootCertStore, name: bool, identity: Option<Identity>) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| StoreError::Config(e.to_string()))?;
    let config = if name {
        config.with_root_certificates(roots)
    } else {
        config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Chain { roots, provider }))
    };
    match identity {
        Some((certificates, key)) => config
            .with_client_auth_cert(certificates, key)
            .map_err(|e| StoreError::Config(format!("the client certificate: {e}"))),
        None => Ok(config.with_no_client_auth()),
    }
}

/// The client's certificate and its key, which nobody else may read (root may leave it to its group, as for libpq).
fn identity(cert: &Path, key: &Path, as_root: Option<AsRoot>) -> Result<Identity, StoreError> {
    let key_unfit = |why: String| unfit(key, format!("sslkey {}: {why}", key.display()));
    let others = |owner| if owner == 0 { 0o027 } else { 0o077 };
    let pem = files::secret(key, others, as_root).map_err(|e| match e {
        Unfit::Open => key_unfit("others may read it (chmod 0600)".to_owned()),
        Unfit::Io(e) => key_unfit(e.to_string()),
    })?;
    let found = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| match e {
        pem::Error::NoItemsFound => {
            key_unfit("it holds no private key, or one under a passphrase".to_owned())
        }
        other => key_unfit(other.to_string()),
    })?;
    let chain = certificates(cert, as_root)?;
    if chain.is_empty() {
        let why = format!("sslcert {} holds no certificate", cert.display());
        return Err(unfit(cert, why));
    }
    Ok((chain, found))
}

fn load(roots: &mut RootCertStore, file: &Path, as_root: Option<AsRoot>) -> Result<usize, StoreError> {
    // System bundles may hold roots that this library refuses; the others still count.
    let (added, _refused) = roots.add_parsable_certificates(certificates(file, as_root)?);
    Ok(added)
}

fn certificates(file: &Path, as_root: Option<AsRoot>) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let bad = |e: &dyn std::fmt::Display| unfit(file, format!("certificates in {}: {e}", file.display()));
    let pem = files::content(file, as_root).map_err(|e| bad(&e))?;
    CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| bad(&e))
}
