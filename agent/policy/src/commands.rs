//! Which program a command is, and whether the node lets it run. What was checked is what is executed: the real path, of
//! which nobody but root (or the agent's own user) can change any part.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use farmhand_core::definition::Command;

use crate::glob::matches;
use crate::root_owned::real;
use crate::rules::UserRules;

/// PATH of a program that was held against `commands`, whatever the definition says.
pub const SECURE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a run is told about itself. Parameters are `FARMHAND_PARAM_…`.
const OF_THE_RUN: [&str; 15] = [
    "JOB",
    "RUN",
    "ATTEMPT",
    "FENCE",
    "NODE",
    "DUE",
    "INSTANCE",
    "INSTANCES",
    "SLOT",
    "PARAMS",
    "KEY",
    "ROW",
    "CHECKPOINT",
    "PARENT_RUN",
    "PARENT_RUNS",
];

/// How the agent writes the engines of flows and streams.
const ENGINE: &str = "/proc/self/exe";

impl UserRules {
    /// The program to execute, where its path decides; `None` where any may be.
    pub fn program(&self, command: &Command, path: &str) -> Result<Option<PathBuf>, String> {
        let any = self.commands.is_none();
        let argv = match command {
            Command::Shell(_) if self.shell.unwrap_or(any) => return Ok(None),
            Command::Shell(_) => {
                return Err("a string for a shell; write the command as a list, or allow `shell`".to_owned());
            }
            Command::Argv(argv) => argv,
        };
        let name = argv.first().map_or("", String::as_str);
        if name == ENGINE {
            return match self.flows.unwrap_or(any) {
                true => Ok(None),
                false => Err(
                    "a flow or stream, whose engine begins its commands; `flows` would allow it".to_owned(),
                ),
            };
        }
        let Some(patterns) = &self.commands else {
            return Ok(None);
        };
        let found = found(name, path)?;
        let real = real(&found)?;
        let text = real.to_str().ok_or("its path is not UTF-8")?;
        if patterns.iter().any(|pattern| fits(pattern, text)) {
            return Ok(Some(real));
        }
        Err(match real == found {
            true => format!("{text} fits none of `commands`"),
            false => format!("{}, which is {text}, fits none of `commands`", found.display()),
        })
    }

    /// Whether a program held against `commands` may have this environment: another variable can make it run anything
    /// (`LD_PRELOAD`, `BASH_ENV`, `PYTHONPATH`, `GIT_SSH_COMMAND`, …), so only those that cannot pass.
    pub fn environment(&self, env: &BTreeMap<String, String>) -> Result<(), String> {
        let kept = |name: &str| self.env_keep.iter().flatten().any(|p| matches(p, name));
        match env
            .iter()
            .find(|(name, value)| !harmless(name, value) && !kept(name))
        {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "`commands` limits what it runs, and its `env` sets {name}; `env_keep` in the policy would allow it"
            )),
        }
    }

    /// Whether setuid programs are to have no effect for this user.
    pub fn no_new_privs(&self, uid: u32) -> bool {
        self.no_new_privs.unwrap_or(uid != 0)
    }
}

/// Variables that no program takes for a file or a command. PATH is not the definition's: it is replaced.
fn harmless(name: &str, value: &str) -> bool {
    if let Some(own) = name.strip_prefix("FARMHAND_") {
        return OF_THE_RUN.contains(&own) || own.starts_with("PARAM_");
    }
    match name {
        "PATH" => true,
        "TRACEPARENT" => value.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'),
        "TZ" => {
            let zone = value.strip_prefix(':').unwrap_or(value);
            !zone.starts_with('/') && !zone.contains("..") && zone.chars().all(|c| c.is_ascii_graphic())
        }
        // A locale with a slash is a file, and one with a percent sign may be a format.
        "LANG" | "LANGUAGE" | "TERM" => !value.contains(['/', '%']),
        _ => name.starts_with("LC_") && !value.contains(['/', '%']),
    }
}

/// Where a directory of the pattern is a link of root's, as /bin often is, the real paths below it fit too.
fn fits(pattern: &str, text: &str) -> bool {
    if matches(pattern, text) {
        return true;
    }
    let fixed = pattern.find(['*', '?']).map_or(pattern, |at| &pattern[..at]);
    let Some((dir, rest)) = fixed.rfind('/').map(|at| pattern.split_at(at)) else {
        return false;
    };
    let dir = if dir.is_empty() { "/" } else { dir };
    real(Path::new(dir))
        .ok()
        .and_then(|dir| {
            dir.to_str()
                .map(|dir| format!("{}{rest}", dir.trim_end_matches('/')))
        })
        .is_some_and(|pattern| matches(&pattern, text))
}

/// As execvp looks: a name without a slash in the directories of PATH, of which only absolute ones count here.
fn found(name: &str, path: &str) -> Result<PathBuf, String> {
    if name.starts_with('/') {
        return Ok(PathBuf::from(name));
    }
    if name.contains('/') || name.is_empty() {
        return Err(format!(
            "\"{name}\" is not an absolute path, and only those can be held against `commands`"
        ));
    }
    let executable = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    path.split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(|dir| Path::new(dir).join(name))
        .find(executable)
        .ok_or_else(|| format!("no such command: {name} (PATH={path})"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

    fn only(patterns: &[&str]) -> UserRules {
        UserRules {
            commands: Some(patterns.iter().map(|p| (*p).to_owned()).collect()),
            ..UserRules::default()
        }
    }

    fn argv(words: &[&str]) -> Command {
        Command::Argv(words.iter().map(|w| (*w).to_owned()).collect())
    }

    #[test]
    fn a_listed_program_is_found_as_a_shell_would_and_executed_by_its_real_path() {
        let rules = only(&["/usr/bin/id", "/usr/bin/e*"]);
        let id = std::fs::canonicalize("/usr/bin/id").unwrap();
        for word in [
            "id",
            "/usr/bin/id",
            "/bin/id",
            "/usr/lib/../bin/id",
            "/usr/bin/./id",
        ] {
            assert_eq!(
                rules.program(&argv(&[word]), PATH),
                Ok(Some(id.clone())),
                "{word}"
            );
        }
        assert!(rules.program(&argv(&["env"]), PATH).is_ok());
        assert!(only(&["/bin/*"]).program(&argv(&["/usr/bin/id"]), PATH).is_ok());
    }

    #[test]
    fn tricks_with_paths_are_refused() {
        let rules = only(&["/usr/bin/id"]);
        for word in [
            "./id",
            "bin/id",
            "../usr/bin/id",
            "",
            "/usr/bin/../bin/true",
            "true",
            "/usr/bin",
            "/no/such",
        ] {
            assert!(rules.program(&argv(&[word]), PATH).is_err(), "{word}");
        }
        // A PATH of the job's own choice finds nothing that is not listed, and nothing relative.
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("id");
        std::fs::copy("/usr/bin/true", &own).unwrap();
        let path = dir.path().to_str().unwrap();
        assert!(rules.program(&argv(&["id"]), path).is_err());
        assert!(rules.program(&argv(&["id"]), "bin:.::").is_err());
        // A link to what is not listed, under a name that is.
        let link = dir.path().join("link");
        symlink("/usr/bin/true", &link).unwrap();
        let rules = only(&[&format!("{path}/**"), "/usr/bin/id"]);
        assert!(rules.program(&argv(&[link.to_str().unwrap()]), PATH).is_err());
        let round = dir.path().join("round");
        symlink(&round, &round).unwrap();
        assert!(rules.program(&argv(&[round.to_str().unwrap()]), PATH).is_err());
    }

    #[test]
    fn what_somebody_else_can_change_is_not_executed() {
        let dir = tempfile::tempdir_in("/var/lib").unwrap();
        let program = dir.path().join("tool");
        std::fs::copy("/usr/bin/true", &program).unwrap();
        let rules = only(&[&format!("{}/*", dir.path().display())]);
        let command = argv(&[program.to_str().unwrap()]);
        assert_eq!(rules.program(&command, PATH), Ok(Some(program.clone())));
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&program, 0o777);
        assert!(rules.program(&command, PATH).unwrap_err().contains("0777"));
        mode(&program, 0o755);
        mode(dir.path(), 0o777);
        assert!(rules.program(&command, PATH).unwrap_err().contains("0777"));
    }

    #[test]
    fn a_variable_passes_only_when_no_program_takes_it_for_a_file_or_a_command() {
        let env = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let rules = only(&["/usr/bin/id"]);
        for (name, value) in [
            ("LANG", "de_DE.UTF-8"),
            ("LC_ALL", "C"),
            ("TZ", "Europe/Berlin"),
            ("FARMHAND_PARAM_FILE", "/tmp/x"),
            ("FARMHAND_RUN", "7"),
            ("PATH", "/tmp"),
            (
                "TRACEPARENT",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ),
        ] {
            assert_eq!(rules.environment(&env(name, value)), Ok(()), "{name}");
        }
        for (name, value) in [
            ("LD_PRELOAD", "/tmp/x.so"),
            ("BASH_ENV", "/tmp/x"),
            ("BASH_FUNC_id%%", "() { evil; }"),
            ("PYTHONPATH", "/tmp"),
            ("HOME", "/tmp"),
            ("LC_ALL", "/tmp/locale"),
            ("LANGUAGE", "%n"),
            ("TZ", "/tmp/zone"),
            ("TZ", ":../../tmp/zone"),
            ("FARMHAND_DATABASE_URL", "postgresql://x"),
            ("FARMHAND_SECRET_X_FILE", "/etc/shadow"),
            ("MODE", "fast"),
            ("TRACEPARENT", "/tmp/x"),
        ] {
            let why = rules.environment(&env(name, value)).unwrap_err();
            assert!(why.contains(name) && why.contains("env_keep"), "{why}");
        }
        let kept = UserRules {
            env_keep: Some(vec!["MODE".to_owned(), "APP_*".to_owned()]),
            ..rules
        };
        assert_eq!(kept.environment(&env("APP_MODE", "fast")), Ok(()));
        assert_eq!(kept.environment(&env("MODE", "fast")), Ok(()));
        assert!(kept.environment(&env("LD_PRELOAD", "x")).is_err());
    }

    #[test]
    fn a_list_of_commands_closes_shells_and_engines_unless_they_are_allowed() {
        let script = Command::Shell("id".to_owned());
        let engine = argv(&["/proc/self/exe", "stream-engine"]);
        let rules = only(&["/usr/bin/id"]);
        assert!(rules.program(&script, PATH).unwrap_err().contains("`shell`"));
        assert!(rules.program(&engine, PATH).unwrap_err().contains("`flows`"));
        let open = UserRules {
            shell: Some(true),
            flows: Some(true),
            ..rules
        };
        assert_eq!(
            (open.program(&script, PATH), open.program(&engine, PATH)),
            (Ok(None), Ok(None))
        );
        let none = UserRules::default();
        assert_eq!(
            (none.program(&script, PATH), none.program(&argv(&["x"]), PATH)),
            (Ok(None), Ok(None))
        );
        let closed = UserRules {
            shell: Some(false),
            ..none
        };
        assert!(closed.program(&script, PATH).is_err());
        assert!(closed.no_new_privs(1000) && !closed.no_new_privs(0));
    }
}
