//! The policy's file, and what holds for a user by it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::limits::DefaultLimits;
use crate::root_owned::read_trusted;

/// Stands for every user but root.
const ANYBODY: &str = "*";

/// What holds for one start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// No file is named: the agent's own user, and nobody else.
    OwnUser,
    Listed {
        file: String,
        rules: Box<Rules>,
        /// The agent's own user, where it has no other rights: `*` does not mean it either.
        apart: Option<u32>,
    },
    /// The file cannot be used: nobody at all.
    Unusable { why: String },
}

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Names; `*` is everybody but root.
    pub users: Vec<String>,
    /// Who runs what names no user; the agent's own user when absent.
    pub default_user: Option<String>,
    /// What holds for every user that has no table of its own, key by key.
    pub commands: Option<Vec<String>>,
    pub env_keep: Option<Vec<String>>,
    pub shell: Option<bool>,
    pub flows: Option<bool>,
    pub no_new_privs: Option<bool>,
    pub secrets: Option<Vec<String>>,
    pub limits: Option<DefaultLimits>,
    /// Where jobs' secrets lie: one file each, for root alone.
    pub secrets_dir: Option<PathBuf>,
    /// What prints a secret whose name is its last argument, where there is no directory of them.
    pub secret_command: Option<Vec<String>>,
    #[serde(default)]
    pub user: BTreeMap<String, UserRules>,
}

/// What holds for one user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRules {
    /// Patterns of the only programs that may be run, by their real paths.
    pub commands: Option<Vec<String>>,
    /// Patterns of further variables that a definition may set for such a program.
    pub env_keep: Option<Vec<String>>,
    /// Whether a string may be given to a shell; by default only where `commands` does not limit anything.
    pub shell: Option<bool>,
    /// Whether flows and streams may run, whose engine begins their commands; by default as for `shell`.
    pub flows: Option<bool>,
    /// Whether setuid programs have no effect; by default for everybody but root.
    pub no_new_privs: Option<bool>,
    /// Patterns of the names of secrets that jobs may have; by default none.
    pub secrets: Option<Vec<String>>,
    /// What holds for jobs whose definition names no limit.
    pub limits: Option<DefaultLimits>,
}

impl Policy {
    /// What the file says now. Whatever is wrong with it allows nobody.
    pub fn now(file: Option<&Path>) -> Policy {
        match file {
            None => Policy::OwnUser,
            Some(path) => Self::read(path).unwrap_or_else(|why| Policy::Unusable { why }),
        }
    }

    /// Errors: What is wrong with the file, or with who could change it.
    pub fn read(path: &Path) -> Result<Policy, String> {
        let wrong = |why: String| format!("the policy {} cannot be used: {why}", path.display());
        let text = read_trusted(path).map_err(wrong)?;
        let rules: Rules = toml::from_str(&text).map_err(|e| wrong(e.to_string().trim().to_owned()))?;
        if let Some(user) = rules.default_user.as_deref().filter(|user| *user == ANYBODY) {
            return Err(wrong(format!("default_user is one user, not {user}")));
        }
        rules.sensible().map_err(wrong)?;
        Ok(Policy::Listed {
            file: path.display().to_string(),
            rules: Box::new(rules),
            apart: None,
        })
    }

    /// The same, but jobs become the user of the agent only where the file names it.
    #[must_use]
    pub fn keeping_apart(mut self, agent: u32) -> Self {
        if let Policy::Listed { apart, .. } = &mut self {
            *apart = Some(agent);
        }
        self
    }

    /// What holds for a user, by any of its names.
    pub fn limits(&self, names: &[&str]) -> UserRules {
        let Policy::Listed { rules, .. } = self else {
            return UserRules {
                // Whoever the agent is can read them anyway.
                secrets: Some(vec!["*".to_owned()]),
                ..UserRules::default()
            };
        };
        let own = names.iter().find_map(|name| rules.user.get(*name));
        let own = own.cloned().unwrap_or_default();
        UserRules {
            commands: own.commands.or_else(|| rules.commands.clone()),
            env_keep: own.env_keep.or_else(|| rules.env_keep.clone()),
            shell: own.shell.or(rules.shell),
            flows: own.flows.or(rules.flows),
            no_new_privs: own.no_new_privs.or(rules.no_new_privs),
            secrets: own.secrets.or_else(|| rules.secrets.clone()),
            limits: own.limits.or(rules.limits),
        }
    }

    /// Who runs what names no user; `None` is the agent's own user.
    pub fn default_user(&self) -> Option<&str> {
        match self {
            Policy::Listed { rules, .. } => rules.default_user.as_deref(),
            Policy::OwnUser | Policy::Unusable { .. } => None,
        }
    }

    /// Whether a job may run as this user, on a node whose agent runs as `own`.
    pub fn check(&self, name: &str, uid: u32, own: u32) -> Result<(), String> {
        match self {
            Policy::OwnUser if uid == own => Ok(()),
            Policy::OwnUser => Err(
                "without a policy jobs run as the agent's own user alone; `policy` in the agent's configuration \
                 names the file that lists others"
                    .to_owned(),
            ),
            Policy::Unusable { why } => Err(why.clone()),
            Policy::Listed { file, rules, apart } => {
                let named = rules.users.iter().any(|user| user == name);
                let anybody = rules.users.iter().any(|user| user == ANYBODY);
                match (named, anybody, uid) {
                    (true, ..) => Ok(()),
                    (_, true, uid) if Some(uid) == *apart => Err(format!(
                        "it is the agent's own user, which `users` in {file} has to name: \"{ANYBODY}\" does not mean it"
                    )),
                    (_, true, 1..) => Ok(()),
                    (_, true, 0) => Err(format!(
                        "`users` in {file} has to name it: \"{ANYBODY}\" does not mean root"
                    )),
                    _ => Err(format!(
                        "`users` in {file} does not name it; add \"{name}\" there if its jobs may run on this node"
                    )),
                }
            }
        }
    }
}

impl Rules {
    fn sensible(&self) -> Result<(), String> {
        let own = self.user.values().filter_map(|user| user.commands.as_ref());
        for pattern in self.commands.iter().chain(own).flatten() {
            let parts = || pattern.split('/').skip(1);
            let bad = |part: &str| part.is_empty() || part == "." || part == "..";
            if !pattern.starts_with('/') || parts().any(bad) {
                return Err(format!(
                    "`commands`: \"{pattern}\" is not an absolute path pattern such as /usr/bin/* or /opt/farm/**"
                ));
            }
        }
        if self
            .secret_command
            .as_ref()
            .is_some_and(|c| !c.first().is_some_and(|p| p.starts_with('/')))
        {
            return Err("`secret_command` begins with the absolute path of a program".to_owned());
        }
        if self.secrets_dir.as_ref().is_some_and(|dir| !dir.is_absolute()) {
            return Err("`secrets_dir` is an absolute path".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn listed(users: &[&str]) -> Policy {
        Policy::Listed {
            file: "/etc/p".to_owned(),
            rules: Box::new(Rules {
                users: users.iter().map(|u| (*u).to_owned()).collect(),
                ..Rules::default()
            }),
            apart: None,
        }
    }

    #[test]
    fn a_users_own_table_wins_key_by_key() {
        let text = "users = ['*']\ncommands = ['/usr/bin/*']\nno_new_privs = false\n\
                    [user.mailer]\ncommands = ['/opt/mail/**']\nshell = true\n";
        let rules: Rules = toml::from_str(text).unwrap();
        assert_eq!(rules.sensible(), Ok(()));
        let policy = Policy::Listed {
            file: "/etc/p".to_owned(),
            rules: Box::new(rules),
            apart: None,
        };
        let mailer = policy.limits(&["mailer"]);
        assert_eq!(
            (mailer.commands.unwrap()[0].as_str(), mailer.shell),
            ("/opt/mail/**", Some(true))
        );
        assert_eq!(mailer.no_new_privs, Some(false));
        let other = policy.limits(&["nobody"]);
        assert_eq!(
            (other.commands.unwrap()[0].as_str(), other.shell),
            ("/usr/bin/*", None)
        );
        assert_eq!(policy.limits(&["alias", "mailer"]).shell, Some(true));
        assert_eq!(Policy::OwnUser.limits(&["me"]).commands, None);
    }

    #[test]
    fn patterns_that_protect_nothing_are_refused() {
        for bad in [
            "usr/bin/*",
            "/usr/bin/",
            "/usr/../bin/*",
            "*",
            "",
            "/opt//x",
            "/./x",
        ] {
            let rules = Rules {
                commands: Some(vec![bad.to_owned()]),
                ..Rules::default()
            };
            assert!(rules.sensible().is_err(), "{bad}");
        }
    }

    #[test]
    fn everybody_does_not_mean_root_which_has_to_be_named() {
        let policy = listed(&["*"]);
        assert_eq!(policy.check("mailer", 1000, 0), Ok(()));
        assert!(policy.check("root", 0, 0).unwrap_err().contains("/etc/p"));
        // Another name for the same user.
        assert!(policy.check("toor", 0, 0).is_err());
        assert_eq!(listed(&["*", "root"]).check("root", 0, 0), Ok(()));
        assert!(listed(&["mailer"]).check("nobody", 65534, 0).is_err());
        assert!(listed(&[]).check("mailer", 1000, 0).is_err());
    }

    #[test]
    fn everybody_does_not_mean_the_user_of_an_agent_without_rights() {
        let policy = listed(&["*"]).keeping_apart(990);
        assert_eq!(policy.check("mailer", 1000, 0), Ok(()));
        assert!(
            policy
                .check("farmhand-agent", 990, 0)
                .unwrap_err()
                .contains("agent's own")
        );
        let named = listed(&["*", "farmhand-agent"]).keeping_apart(990);
        assert_eq!(named.check("farmhand-agent", 990, 0), Ok(()));
        assert!(listed(&["mailer"]).keeping_apart(990).check("x", 990, 0).is_err());
    }

    #[test]
    fn without_a_file_jobs_run_as_the_agents_own_user_alone() {
        let policy = Policy::now(None);
        assert_eq!(policy.check("root", 0, 0), Ok(()));
        assert_eq!(policy.check("me", 1000, 1000), Ok(()));
        assert!(policy.check("mailer", 1001, 0).is_err());
        assert_eq!(policy.default_user(), None);
    }

    fn refused(text: &str, mode: u32) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let policy = Policy::now(Some(&path));
        policy.check("root", 0, 0).unwrap_err()
    }

    #[test]
    fn a_file_that_others_may_change_or_that_makes_no_sense_allows_nobody() {
        let good = "users = ['root']\n";
        assert!(refused(good, 0o664).contains("0664"));
        assert!(refused(good, 0o646).contains("0646"));
        assert!(refused("usrs = ['root']\n", 0o644).contains("users"));
        assert!(refused("users = [", 0o644).contains("line 1"));
        assert!(refused("users = ['root']\ndefault_user = '*'\n", 0o644).contains("one user"));
        let gone = Policy::now(Some(Path::new("/no/such/policy.toml")));
        assert!(gone.check("root", 0, 0).unwrap_err().contains("/no/such"));
        assert!(Policy::read(Path::new("policy.toml")).is_err());
    }

    #[test]
    fn a_good_file_says_who_and_who_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.toml");
        std::fs::write(&path, "users = ['*']\ndefault_user = 'nobody'\n").unwrap();
        let policy = Policy::read(&path).unwrap();
        assert_eq!(policy.default_user(), Some("nobody"));
        assert_eq!(policy.check("nobody", 65534, 0), Ok(()));
    }
}
