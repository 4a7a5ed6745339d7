//! Whose the state directory is. Who can rename a part of it can take away what root wrote down, or put a link where root
//! gives a directory to a group.

use std::fs;
use std::path::Path;

use farmhand_policy::{only_roots, trusted};

use crate::paths::Paths;
use farmhand_os::files::if_there;

pub(super) fn check(state_dir: &Path) -> Result<(), String> {
    let wrong = |why: String| {
        format!(
            "the state directory {} and all above it must be for nobody but root to change: {why}",
            state_dir.display()
        )
    };
    let above = state_dir.ancestors().skip(1);
    let above = above.into_iter().find(|dir| fs::symlink_metadata(dir).is_ok());
    let above = only_roots(above.unwrap_or(Path::new("/"))).map_err(|why| wrong(fix(why)))?;
    if !belongs_to_us(state_dir).map_err(wrong)? {
        // Somebody else could be first to make it.
        let found = fs::metadata(&above).map_err(|e| wrong(format!("{}: {e}", above.display())))?;
        return trusted(&found).map_err(|why| {
            wrong(format!(
                "{} {why}; make the state directory in there as root, and start again",
                above.display()
            ))
        });
    }
    let paths = Paths::new(state_dir);
    for part in [paths.private_dir(), paths.runs()] {
        belongs_to_us(&part).map_err(wrong)?;
    }
    Ok(())
}

/// Whether there is such a directory.
fn belongs_to_us(path: &Path) -> Result<bool, String> {
    let shown = path.display();
    let found = if_there(fs::symlink_metadata(path)).map_err(|e| format!("{shown}: {e}"))?;
    let Some(found) = found else { return Ok(false) };
    if found.is_symlink() {
        return Err(format!(
            "{shown} is a link; put the directory itself there, or name the one it leads to with --state-dir"
        ));
    }
    if !found.is_dir() {
        return Err(format!("{shown} is not a directory"));
    }
    trusted(&found).map_err(|why| fix(format!("{shown} {why}")))?;
    Ok(true)
}

fn fix(why: String) -> String {
    format!("{why}; fix it with `chown root:root` and `chmod go-w`, or choose another --state-dir")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn refused(state: &Path, why: &[&str]) {
        let said = check(state).unwrap_err();
        assert!(why.iter().all(|why| said.contains(why)), "{said}");
    }

    /// In a directory of one's own, as there is one below /tmp.
    fn state() -> (tempfile::TempDir, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let state = base.path().join("above/state");
        fs::create_dir_all(state.join("warden")).unwrap();
        (base, state)
    }

    #[test]
    fn what_is_ours_is_taken_and_what_is_missing_is_made() {
        let (_base, state) = state();
        assert_eq!(check(&state), Ok(()));
        assert_eq!(check(&state.join("more/to/come")), Ok(()));
        fs::create_dir(state.join("runs")).unwrap();
        mode(&state.join("runs"), 0o751);
        assert_eq!(check(&state), Ok(()));
    }

    #[test]
    fn a_part_that_others_can_change_is_refused() {
        let (_base, state) = state();
        for part in ["", "warden", "runs", ".."] {
            let part = state.join(part);
            fs::create_dir_all(&part).unwrap();
            mode(&part, 0o770);
            refused(&state, &["0770", "chmod go-w"]);
            mode(&part, 0o711);
        }
        assert_eq!(check(&state), Ok(()));
    }

    #[test]
    fn a_link_in_place_of_a_part_is_refused() {
        let (base, state) = state();
        let link = base.path().join("link");
        symlink(&state, &link).unwrap();
        refused(&link, &["is a link", "--state-dir"]);
        // On the way there it is as good as its target.
        symlink(state.parent().unwrap(), base.path().join("way")).unwrap();
        assert_eq!(check(&base.path().join("way/state")), Ok(()));
        symlink(base.path(), state.join("runs")).unwrap();
        refused(&state, &["/runs is a link"]);
    }

    #[test]
    fn among_the_files_of_others_it_has_to_be_there_already() {
        let (_base, state) = state();
        mode(state.parent().unwrap(), 0o1777);
        assert_eq!(check(&state), Ok(()));
        refused(&state.with_file_name("new"), &["1777", "as root"]);
    }
}
