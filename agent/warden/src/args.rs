//! What reaper and warden are told on their command lines. The warden's names the word `warden` and the state
//! directory, the reaper's the word `reaper`, and neither the other's: people look for them with pgrep.

use std::path::PathBuf;

use uuid::Uuid;

use farmhand_warden_client::wire::Serving;

#[derive(Clone, Debug)]
pub(crate) struct Args {
    pub state_dir: PathBuf,
    pub serving: Serving,
    /// Of the node whose lease it serves.
    pub address: String,
    pub deadline_ns: u64,
    pub soft_ns: u64,
    pub max_attempts: u32,
    pub no_cgroup: bool,
    /// The warden's only: its parent, what a command's `oom_score_adj` is, the lock both hold, the timer that tells the reaper of
    /// the fence, and where attempts get their cgroups.
    pub parent: i32,
    pub oom_score_adj: i32,
    pub lock_fd: i32,
    pub fence_fd: i32,
    pub cgroup: Option<PathBuf>,
}

impl Args {
    pub(crate) fn parse(words: impl Iterator<Item = std::ffi::OsString>) -> Result<Args, String> {
        let mut args = Args {
            state_dir: PathBuf::new(),
            serving: Serving {
                session: 0,
                incarnation: Uuid::nil(),
            },
            address: String::new(),
            deadline_ns: 0,
            soft_ns: 0,
            max_attempts: 2048,
            no_cgroup: false,
            parent: 0,
            oom_score_adj: 0,
            lock_fd: -1,
            fence_fd: -1,
            cgroup: None,
        };
        let mut words = words;
        while let Some(name) = words.next() {
            let name = name.to_string_lossy().into_owned();
            if name == "--no-cgroup" {
                args.no_cgroup = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--state-dir" => args.state_dir = value.into(),
                "--cgroup" => args.cgroup = Some(value.into()),
                _ => args.set(&name, &value.to_string_lossy())?,
            }
        }
        if !args.state_dir.is_absolute() {
            return Err(format!("--state-dir must be absolute, not {:?}", args.state_dir));
        }
        if args.deadline_ns == 0 {
            return Err("--deadline is missing".into());
        }
        if args.soft_ns == 0 {
            args.soft_ns = args.deadline_ns;
        }
        Ok(args)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
            value
                .parse()
                .map_err(|_| format!("{name} {value} makes no sense"))
        }
        match name {
            "--session" => self.serving.session = number(name, value)?,
            "--incarnation" => self.serving.incarnation = number(name, value)?,
            "--address" => self.address = value.to_owned(),
            "--deadline" => self.deadline_ns = number(name, value)?,
            "--soft" => self.soft_ns = number(name, value)?,
            "--max-attempts" => self.max_attempts = number(name, value)?,
            "--parent" => self.parent = number(name, value)?,
            "--oom-score-adj" => self.oom_score_adj = number(name, value)?,
            "--lock-fd" => self.lock_fd = number(name, value)?,
            "--fence-fd" => self.fence_fd = number(name, value)?,
            _ => return Err(format!("unknown argument {name}")),
        }
        Ok(())
    }
}
