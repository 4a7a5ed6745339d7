//! What nobody can change who is not root, or the agent's own user already.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;
/// More than any policy needs; a device or a log that was named by mistake is not read to its end.
const LONGEST: u64 = 1 << 20;

/// Errors: Who else could change it, as the end of a sentence about it.
pub fn trusted(found: &Metadata) -> Result<(), String> {
    owned(found)?;
    if found.mode() & 0o022 != 0 {
        return Err(format!(
            "can be changed by others than root: its mode is {:04o}",
            found.mode() & 0o7777
        ));
    }
    Ok(())
}

fn owned(found: &Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    match [0, own].contains(&found.uid()) {
        true => Ok(()),
        false => Err(format!("belongs to user {}, not to root", found.uid())),
    }
}

/// What lies in such a directory is its owner's alone to replace, whoever else may make things there: as in /tmp.
fn is_sticky(found: &Metadata) -> bool {
    found.is_dir() && found.mode() & 0o1000 != 0
}

/// The text of a file that only root can change.
pub fn read_trusted(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = open_trusted(path, OFlags::empty())?;
    file.take(LONGEST)
        .read_to_string(&mut text)
        .map_err(|e| e.to_string())?;
    Ok(text)
}

/// A file that only root can change, in a directory that only root can change.
pub fn open_trusted(path: &Path, flags: OFlags) -> Result<File, String> {
    if !path.is_absolute() {
        return Err("its path is not absolute".to_owned());
    }
    let said = |e: std::io::Error| e.to_string();
    let dir = path.parent().unwrap_or(Path::new("/"));
    trusted(&std::fs::metadata(dir).map_err(said)?).map_err(|why| format!("{} {why}", dir.display()))?;
    // A FIFO would be waited for.
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|e| said(e.into()))?);
    let found = file.metadata().map_err(said)?;
    trusted(&found).map_err(|why| format!("it {why}"))?;
    if !found.is_file() {
        return Err("it is not a file".to_owned());
    }
    Ok(file)
}

/// The path without links, every part of it looked at: an owner or a mode that lets somebody else change what is
/// found there between this check and its use is refused.
pub(super) fn real(path: &Path) -> Result<PathBuf, String> {
    walk(path, trusted, |_| Ok(()))
}

/// As `real`, but directories as /tmp may be on the way: what root has made in there is still root's alone to replace.
pub fn only_roots(path: &Path) -> Result<PathBuf, String> {
    let part = |found: &Metadata| match is_sticky(found) {
        true => owned(found),
        false => trusted(found),
    };
    walk(path, part, owned)
}

type Judged = Result<(), String>;

fn walk(
    path: &Path,
    part: impl Fn(&Metadata) -> Judged,
    link: impl Fn(&Metadata) -> Judged,
) -> Result<PathBuf, String> {
    let mut todo: Vec<OsString> = Vec::new();
    push(&mut todo, path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    let said = |at: &Path, why: String| format!("{} {why}", at.display());
    let root = std::fs::symlink_metadata("/").map_err(|e| e.to_string())?;
    part(&root).map_err(|why| said(&at, why))?;
    while let Some(name) = todo.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let meta = std::fs::symlink_metadata(&next).map_err(|e| format!("{}: {e}", next.display()))?;
        if meta.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(said(path, "is a link without an end".to_owned()));
            }
            // Its mode says nothing; who may replace it, the directory's does, which was looked at.
            link(&meta).map_err(|why| said(&next, why))?;
            let target = std::fs::read_link(&next).map_err(|e| format!("{}: {e}", next.display()))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            push(&mut todo, &target);
            continue;
        }
        part(&meta).map_err(|why| said(&next, why))?;
        at = next;
    }
    Ok(at)
}

fn push(todo: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let at = todo.len();
    todo.extend(parts);
    todo[at..].reverse();
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn below_a_directory_as_tmp_only_what_others_cannot_replace_is_taken() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        let (shared, inner, link) = (at("shared"), at("shared/inner"), at("shared/link"));
        fs::create_dir_all(&inner).unwrap();
        mode(&shared, 0o1777);
        symlink(&inner, &link).unwrap();
        let expected = fs::canonicalize(&inner).unwrap();
        assert_eq!(only_roots(&inner), Ok(expected.clone()));
        assert_eq!(only_roots(&link), Ok(expected));
        assert!(real(&link).unwrap_err().contains("1777"));
        if rustix::process::geteuid().is_root() {
            for path in [&link, &inner] {
                lchown(path, Some(65_534), None).unwrap();
                assert!(only_roots(&link).unwrap_err().contains("user 65534"));
                lchown(path, Some(0), None).unwrap();
            }
        }
        mode(&shared, 0o777);
        assert!(only_roots(&inner).unwrap_err().contains("0777"));
    }

    #[test]
    fn a_file_among_others_or_behind_a_link_is_not_opened() {
        let base = tempfile::tempdir().unwrap();
        let (file, link) = (base.path().join("file"), base.path().join("link"));
        fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        assert!(open_trusted(&file, OFlags::NOFOLLOW).is_ok());
        assert!(open_trusted(&link, OFlags::NOFOLLOW).is_err());
        assert!(open_trusted(&link, OFlags::empty()).is_ok());
        // Somebody could have given a file of root's a second name in there.
        mode(base.path(), 0o1777);
        assert!(
            open_trusted(&file, OFlags::NOFOLLOW)
                .unwrap_err()
                .contains("1777")
        );
    }
}
