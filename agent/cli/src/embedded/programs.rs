use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{EmbeddedError, at};

const OLDEST: u32 = 15;

#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub initdb: PathBuf,
    pub postgres: PathBuf,
    /// The number before the dot: it decides whether a data directory can be opened.
    pub(crate) major: String,
}

/// The installation that opens `data`, or for new data the first one on PATH, else the newest of Debian's.
pub(super) fn find(data: &Path) -> Result<Programs, EmbeddedError> {
    let installed = installed();
    let wanted = match std::fs::read_to_string(data.join("PG_VERSION")) {
        Ok(version) => Some(version.trim().to_owned()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(at(data.join("PG_VERSION").display().to_string())(e)),
    };
    choose(installed, wanted, data)
}

fn choose(installed: Vec<Programs>, wanted: Option<String>, data: &Path) -> Result<Programs, EmbeddedError> {
    if installed.is_empty() {
        return Err(EmbeddedError::NoPrograms);
    }
    let Some(wanted) = wanted else {
        let oldest = installed[0].major.clone();
        let fit = installed
            .into_iter()
            .find(|p| p.major.parse::<u32>().is_ok_and(|n| n >= OLDEST));
        return fit.ok_or(EmbeddedError::TooOld { version: oldest });
    };
    // PATH may lead to one that is found at Debian's place, too.
    let found: BTreeSet<_> = installed.iter().map(|p| p.major.clone()).collect();
    let fit = installed.into_iter().find(|p| p.major == wanted);
    fit.ok_or(EmbeddedError::OtherVersion {
        data: data.to_path_buf(),
        wanted,
        found: found.into_iter().collect(),
    })
}

fn installed() -> Vec<Programs> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|v| v.path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort_by_key(|bin| {
        let version = bin.parent().and_then(Path::file_name).and_then(|n| n.to_str());
        std::cmp::Reverse(version.and_then(|v| v.parse::<u32>().ok()))
    });
    directories.append(&mut debian);
    directories.iter().filter_map(|dir| programs_in(dir)).collect()
}

fn programs_in(dir: &Path) -> Option<Programs> {
    let (initdb, postgres) = (dir.join("initdb"), dir.join("postgres"));
    if !initdb.is_file() || !postgres.is_file() {
        return None;
    }
    let out = Command::new(&postgres).arg("--version").output().ok()?;
    let major = major(&String::from_utf8_lossy(&out.stdout))?;
    Some(Programs {
        initdb,
        postgres,
        major,
    })
}

/// From `postgres (PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)`, or `… 18beta1`.
fn major(version: &str) -> Option<String> {
    let number = version.split(") ").nth(1)?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(major: &str) -> Programs {
        Programs {
            initdb: "initdb".into(),
            postgres: "postgres".into(),
            major: major.to_owned(),
        }
    }

    #[test]
    fn the_major_version_is_read_from_what_postgres_prints() {
        assert_eq!(
            major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)").as_deref(),
            Some("15")
        );
        assert_eq!(major("postgres (PostgreSQL) 18beta1").as_deref(), Some("18"));
        assert_eq!(major("no such thing"), None);
    }

    #[test]
    fn old_data_is_opened_by_its_own_version_only() {
        let both = vec![installation("17"), installation("15"), installation("17")];
        let found = choose(both.clone(), Some("15".to_owned()), Path::new("data")).unwrap();
        assert_eq!(found.major, "15");
        let none = choose(both, Some("16".to_owned()), Path::new("data")).unwrap_err();
        let said = none.to_string();
        assert!(said.contains("belongs to PostgreSQL 16"), "{said}");
        assert!(said.ends_with("this machine has 15, 17"), "{said}");
    }

    #[test]
    fn new_data_passes_over_versions_that_are_too_old() {
        let found = choose(
            vec![installation("13"), installation("16")],
            None,
            Path::new("data"),
        )
        .unwrap();
        assert_eq!(found.major, "16");
        let none = choose(vec![installation("13")], None, Path::new("data")).unwrap_err();
        assert!(matches!(none, EmbeddedError::TooOld { version } if version == "13"));
    }
}
