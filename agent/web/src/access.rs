//! Who may ask for a route.

use farmhand_store::Role;

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody: the login and what it needs, and the description of the API.
    Open,
    /// Whoever has at least this role; others get a problem document.
    Api(Role),
    /// The same; a browser without a session is sent to the login.
    Page(Role),
}
