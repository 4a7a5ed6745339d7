//! Which release this program is.

use std::sync::OnceLock;

static VERSION: OnceLock<&str> = OnceLock::new();

/// As nodes, pages and metrics show it.
pub fn version() -> &'static str {
    VERSION.get_or_init(|| env!("CARGO_PKG_VERSION"))
}

/// For a program that is made of these crates and is another release. What comes after the first [`version`] changes nothing.
pub fn is_version(version: &'static str) {
    let _ = VERSION.set(version);
}
