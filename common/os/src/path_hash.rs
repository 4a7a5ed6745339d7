//! A short name for a long path.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// FNV-1a, 64 bits (<https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>), of the path without links: it
/// differs between directories and is the same at every start, in every release.
pub fn path_hash(path: &Path) -> u64 {
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    fnv1a(canonical.as_os_str().as_bytes())
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_function() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_link_has_the_name_of_what_it_points_to() {
        assert_eq!(
            path_hash(Path::new("/proc/self/root/usr")),
            path_hash(Path::new("/usr"))
        );
    }
}
