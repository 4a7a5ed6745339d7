//! Unix signals, as the agent means them.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT: finish what runs, then leave; a second one kills.
    Interrupt,
    /// SIGTERM: leave within `stop_timeout`.
    Terminate,
    /// SIGQUIT: kill everything and leave.
    Quit,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGALRM: poll now.
    Poll,
}

impl Signal {
    /// Whether the agent is to end, sooner or later.
    pub(crate) fn is_leaving(self) -> bool {
        match self {
            Signal::Interrupt | Signal::Terminate | Signal::Quit => true,
            Signal::Reload | Signal::Poll => false,
        }
    }
}

/// Every signal from now on, in order of arrival.
pub(crate) fn listen() -> std::io::Result<mpsc::Receiver<Signal>> {
    let (tx, rx) = mpsc::channel(16);
    for (kind, meaning) in [
        (SignalKind::interrupt(), Signal::Interrupt),
        (SignalKind::terminate(), Signal::Terminate),
        (SignalKind::quit(), Signal::Quit),
        (SignalKind::hangup(), Signal::Reload),
        (SignalKind::alarm(), Signal::Poll),
    ] {
        let mut stream = signal(kind)?;
        let tx = tx.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if tx.send(meaning).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(rx)
}
