//! A short name for a long path.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use farmhand_core::stream::fnv1a;

/// FNV-1a, 64 bits (<https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>), of the path without links: it
/// differs between directories and is the same at every start, in every release.
pub fn path_hash(path: &Path) -> u64 {
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    fnv1a(canonical.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_the_name_of_what_it_points_to() {
        assert_eq!(
            path_hash(Path::new("/proc/self/root/usr")),
            path_hash(Path::new("/usr"))
        );
    }
}
