//! The page.

use super::Routes;

/// Pages, parts of pages and what they load.
pub fn router() -> Routes {
    Routes::new()
}
