//! Whether the API is served where the agent listens, and how safely.

use std::net::SocketAddr;

use super::Merge;
use super::values::{directory, on_off};
use farmhand_node::config::TlsFiles;

impl Merge<'_> {
    /// `api`, `tls_cert` and `tls_key`. Tokens and what the API shows never cross a network in the clear.
    pub(super) fn serving(
        &mut self,
        listen: Option<SocketAddr>,
        metrics_token: bool,
    ) -> Option<(bool, Option<TlsFiles>)> {
        let api = self.setting("api", on_off, || Ok(true));
        let cert = self.optional("tls_cert", directory);
        let key = self.optional("tls_key", directory);
        let (api, cert, key) = (api?, cert?, key?);
        let tls = match (cert, key) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
            (None, None) => None,
            _ => {
                let why = "--tls-cert and --tls-key go together: a certificate is of no use without its key";
                self.mistakes.push(why.to_owned());
                return None;
            }
        };
        if let Some(at) =
            listen.filter(|at| (api || metrics_token) && tls.is_none() && !at.ip().is_loopback())
        {
            self.mistakes.push(format!(
                "--listen {at}: others reach this address, and tokens must not cross the network in the clear. Name a \
                 certificate with --tls-cert and --tls-key; or listen on 127.0.0.1, with a proxy that does TLS before \
                 it; or say --api off, without --metrics-token on, to serve the metrics and the health checks alone"
            ));
            return None;
        }
        Some((api, tls))
    }
}
