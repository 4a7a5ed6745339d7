//! Where commands run.

use super::exit::Outcome;

/// Commands need no threads of their own.
pub(super) fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(command)
}
