//! A file that somebody else named is opened within one directory, whatever the name or a link says.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// An entry of a directory, for reading. Links are followed within the directory only, as mounted secrets of Kubernetes need.
/// A FIFO is not waited for.
/// Errors: When the name is not one entry's, or leads out of the directory; as for any file.
pub fn open(dir: &Path, name: &str) -> io::Result<File> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(io::Error::other("not the name of a file in this directory"));
    }
    let dir = openat(
        CWD,
        dir,
        OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(&dir, name, flags, Mode::empty(), resolve) {
        // A sandbox that does not know the call: then no link at all.
        Err(Errno::NOSYS | Errno::PERM) => {
            Ok(openat(&dir, name, flags | OFlags::NOFOLLOW, Mode::empty())?.into())
        }
        Err(Errno::XDEV) => Err(io::Error::other("it leads out of this directory")),
        opened => Ok(opened?.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_name_reaches_only_what_lies_in_the_directory() {
        let base = std::env::temp_dir().join(format!("farmhand-beneath-{}", std::process::id()));
        let dir = base.join("secrets");
        fs::create_dir_all(dir.join("data")).unwrap();
        fs::write(base.join("outside"), "outside").unwrap();
        fs::write(dir.join("data/one"), "one").unwrap();
        symlink("data/one", dir.join("one")).unwrap();
        symlink("../outside", dir.join("up")).unwrap();
        symlink("/etc/passwd", dir.join("away")).unwrap();
        symlink("/proc/self/fd/0", dir.join("magic")).unwrap();
        let mut text = String::new();
        open(&dir, "one").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");
        for bad in [
            "up",
            "away",
            "magic",
            "../outside",
            "/etc/passwd",
            "data/one",
            "..",
            ".",
            "",
            "a\0b",
        ] {
            assert!(open(&dir, bad).is_err(), "{bad}");
        }
        fs::remove_dir_all(&base).unwrap();
    }
}
