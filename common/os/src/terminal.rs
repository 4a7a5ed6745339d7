//! The terminal, where there is one.

use std::io::{self, IsTerminal};

/// Width of the terminal that stdout is, or what `COLUMNS` says.
pub fn width() -> Option<u16> {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    if !io::stdout().is_terminal() {
        return columns;
    }
    rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|width| *width > 0)
        .or(columns)
        .or(Some(80))
}
