//! A child's last steps up to its exec, as system calls alone. They use strings and lists that were made before the fork, outside of the
//! heap, so that the child needs no copy of the warden's heap (`memory.rs`). Nothing in `Setting::apply`, `Launch::go` and
//! `Failed::leave` may allocate: the heap may not be there.

use std::ffi::{CString, c_char};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use farmhand_core::definition::Command;
use farmhand_policy::SECURE_PATH;
use farmhand_warden_client::wire::{SpawnRequest, Stage, StartFailure};

use super::failure::{search_path, system};
use super::memory::Memory;
use super::plan::{Plan, Restore, fd};
use super::process;

/// Which step failed and why, in twelve bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    step: Step,
    errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Cgroup,
    OpenFiles,
    Memory,
    Nice,
    Cwd,
    /// Executing this one of `programs`, or, beyond the last of them, finding any.
    Exec(u32),
}

/// But for the last.
const STEPS: [Step; 5] = [Step::Cgroup, Step::OpenFiles, Step::Memory, Step::Nice, Step::Cwd];

impl Failed {
    fn now(step: Step) -> Failed {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Failed { step, errno }
    }

    pub(crate) fn cgroup(error: &io::Error) -> Failed {
        let (step, errno) = (Step::Cgroup, error.raw_os_error().unwrap_or(0));
        Failed { step, errno }
    }

    fn bytes(self) -> [u8; 12] {
        let (step, which) = match self.step {
            Step::Exec(which) => (STEPS.len(), which),
            step => (STEPS.iter().position(|s| *s == step).unwrap_or(0), 0),
        };
        let mut bytes = [0; 12];
        bytes[0] = step as u8;
        bytes[4..8].copy_from_slice(&self.errno.to_ne_bytes());
        bytes[8..].copy_from_slice(&which.to_ne_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Failed> {
        let bytes: [u8; 12] = bytes.try_into().ok()?;
        let [step, _, _, _, e0, e1, e2, e3, which @ ..] = bytes;
        let step = match usize::from(step) {
            nth if nth == STEPS.len() => Step::Exec(u32::from_ne_bytes(which)),
            nth => *STEPS.get(nth)?,
        };
        let errno = i32::from_ne_bytes([e0, e1, e2, e3]);
        Some(Failed { step, errno })
    }

    /// Writes it to the start-error pipe, and ends the child.
    pub(crate) fn leave(self) -> ! {
        let bytes = self.bytes();
        // SAFETY: writes an initialised buffer, shorter than PIPE_BUF; then ends this child only.
        unsafe {
            libc::write(fd::START_ERROR, bytes.as_ptr().cast(), bytes.len());
            libc::_exit(126)
        }
    }

    pub(crate) fn explained(
        self,
        request: &SpawnRequest,
        run_dir: &Path,
        checked: Option<&Path>,
    ) -> StartFailure {
        let error = io::Error::from_raw_os_error(self.errno);
        match self.step {
            Step::Cgroup => system(Stage::Cgroup, "cgroup.procs", &error),
            Step::OpenFiles => system(Stage::Limits, "open files", &error),
            Step::Memory => system(Stage::Limits, "memory", &error),
            Step::Nice => system(Stage::Nice, &request.nice.unwrap_or(0).to_string(), &error),
            Step::Cwd => {
                let text = cwd(request, run_dir).display().to_string();
                if request.cwd.is_some() {
                    return system(Stage::Cwd, &text, &error);
                }
                let hint =
                    format!("{text} (every directory above it must let the job's user pass: mode 0711)");
                system(Stage::Cwd, &hint, &error)
            }
            Step::Exec(which) => {
                let programs = programs(request, checked);
                let name = programs
                    .get(which as usize)
                    .map(|path| path.display().to_string());
                let name = name.unwrap_or_else(|| match &request.command {
                    Command::Argv(argv) => {
                        let name = argv.first().map_or("", String::as_str);
                        format!("{name} (PATH={})", search_path(request))
                    }
                    Command::Shell(_) => "/bin/sh".to_owned(),
                });
                system(Stage::Exec, &name, &error)
            }
        }
    }
}

/// Why a child could not execute its command, by what it wrote to the start-error pipe.
pub(crate) fn why_not(written: &[u8], request: &SpawnRequest, run_dir: &Path) -> Option<StartFailure> {
    match Failed::read(written) {
        Some(failed) => Some(failed.explained(request, run_dir, None)),
        None => serde_json::from_slice(written).ok(),
    }
}

fn cwd<'a>(request: &'a SpawnRequest, run_dir: &'a Path) -> &'a Path {
    request.cwd.as_deref().map_or(run_dir, Path::new)
}

/// The files that may be the program, in their order.
fn programs(request: &SpawnRequest, checked: Option<&Path>) -> Vec<PathBuf> {
    if let Some(checked) = checked {
        // What was held against the policy, and no other file that a search might find.
        return vec![checked.to_owned()];
    }
    let Command::Argv(argv) = &request.command else {
        return vec!["/bin/sh".into()];
    };
    let name = argv.first().map_or("", String::as_str);
    if name.contains('/') {
        return vec![name.into()];
    }
    let dirs = search_path(request).split(':');
    dirs.map(|dir| format!("{}/{name}", if dir.is_empty() { "." } else { dir }).into())
        .collect()
}

/// What a child sets first, while it still is whoever the warden is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    restore: Restore,
    nice: Option<i32>,
    umask: u32,
}

impl Setting {
    pub(crate) fn of(plan: &Plan) -> Setting {
        Setting {
            restore: plan.restore,
            nice: plan.request.nice,
            umask: plan.request.umask.unwrap_or(0o022),
        }
    }

    /// A session of its own, with the signals, open files, nice value and umask that its job has.
    pub(crate) fn apply(&self) -> Result<(), Failed> {
        // SAFETY: this child leads no process group, so it cannot fail.
        unsafe { libc::setsid() };
        process::reset_signals(self.restore.ignored);
        let unlimited = |limit: Option<u64>| limit.unwrap_or(libc::RLIM_INFINITY);
        let (current, maximum) = self.restore.open_files;
        let files = libc::rlimit {
            rlim_cur: unlimited(current),
            rlim_max: unlimited(maximum),
        };
        // SAFETY: limits of this process, from initialised values; the file's name is static, and what is written to it is on the stack.
        unsafe {
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files) != 0 {
                return Err(Failed::now(Step::OpenFiles));
            }
            // Not permitted to lower it again without privilege: then it was never lowered.
            let score = libc::open(
                c"/proc/self/oom_score_adj".as_ptr(),
                libc::O_WRONLY | libc::O_CLOEXEC,
            );
            if score >= 0 {
                let mut text = [0_u8; 12];
                let mut rest = &mut text[..];
                let _ = write!(rest, "{}", self.restore.oom_score_adj);
                let left = rest.len();
                libc::write(score, text.as_ptr().cast(), text.len() - left);
                libc::close(score);
            }
            if let Some(nice) = self.nice
                && libc::setpriority(libc::PRIO_PROCESS, 0, nice) != 0
            {
                return Err(Failed::now(Step::Nice));
            }
            libc::umask(self.umask as libc::mode_t);
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Launch {
    no_new_privs: bool,
    memory: Option<u64>,
    cwd: *const c_char,
    programs: (*const *const c_char, usize),
    /// They are places of the search path.
    searched: bool,
    /// The shell's arguments for a file that the kernel does not recognise: behind the first are the command's own.
    args: *mut *const c_char,
    env: *const *const c_char,
    _memory: Memory,
}

impl Launch {
    /// `known`: what the environment has beside what the job names. `checked`: the program that the policy found.
    /// Errors: A zero byte where none can be, or no program at all.
    pub(crate) fn new(
        plan: &Plan,
        no_new_privs: bool,
        known: Vec<CString>,
        checked: Option<&Path>,
    ) -> Result<Launch, StartFailure> {
        let request = &plan.request;
        let run_dir = plan.run_dir.as_path();
        let text = |s: &str| {
            CString::new(s).map_err(|_| {
                let error = io::Error::from_raw_os_error(libc::EINVAL);
                system(Stage::Exec, &s.replace('\0', "\\0"), &error)
            })
        };
        let path = |p: &Path| CString::new(p.as_os_str().as_bytes()).unwrap_or_default();
        let args = match &request.command {
            Command::Argv(argv) => argv.iter().map(|a| text(a)).collect::<Result<Vec<_>, _>>()?,
            Command::Shell(script) => vec![c"/bin/sh".into(), c"-c".into(), text(script)?],
        };
        if args.first().is_none_or(|program| program.is_empty()) {
            let error = io::Error::from_raw_os_error(libc::ENOENT);
            return Err(system(Stage::Exec, "(empty)", &error));
        }
        let mut env = known;
        for (name, value) in &request.env {
            let value = match checked {
                Some(_) if name == "PATH" => SECURE_PATH,
                _ => value,
            };
            env.push(text(&format!("{name}={value}"))?);
        }
        env.push(text(&format!("FARMHAND_PROGRESS_FD={}", fd::PROGRESS))?);
        let mark = [b"FARMHAND_RUN_DIR=", run_dir.as_os_str().as_bytes()].concat();
        env.push(CString::new(mark).unwrap_or_default());
        let searched = checked.is_none() && args.first().is_some_and(|name| !name.as_bytes().contains(&b'/'));
        let programs: Vec<CString> = programs(request, checked).iter().map(|p| path(p)).collect();
        let cwd = [path(cwd(request, run_dir))];
        let with_shell = [vec![c"/bin/sh".to_owned()], args].concat();
        let (memory, [cwd, found, args, env]) = Memory::holding([&cwd, &programs, &with_shell, &env])
            .map_err(|error| system(Stage::Exec, "memory for its arguments", &error))?;
        Ok(Launch {
            no_new_privs,
            memory: request.limits.memory,
            // SAFETY: the list has one.
            cwd: unsafe { *cwd },
            programs: (found.cast_const(), programs.len()),
            searched,
            args,
            env: env.cast_const(),
            _memory: memory,
        })
    }

    /// Executes it; answers only why not. `parent`: to be dead is to be orphaned.
    pub(crate) fn go(&self, parent: Option<i32>) -> Failed {
        // SAFETY: changes this process only. The strings and lists are in `_memory`, which lives as long as this; each ends with a null.
        unsafe {
            if self.no_new_privs {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            }
            if let Some(parent) = parent {
                process::exit_if_orphaned(parent);
            }
            if libc::chdir(self.cwd) != 0 {
                return Failed::now(Step::Cwd);
            }
            // Last: this copy of the warden may have more memory than the command is to have, and need some of it.
            if let Some(bytes) = self.memory {
                let mut limit: libc::rlimit = std::mem::zeroed();
                libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit);
                limit.rlim_max = limit.rlim_max.min(bytes);
                limit.rlim_cur = limit.rlim_max;
                if libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) != 0 {
                    return Failed::now(Step::Memory);
                }
            }
            let (programs, count) = self.programs;
            let mut worst = Failed {
                step: Step::Exec(u32::MAX),
                errno: libc::ENOENT,
            };
            for which in 0..count {
                let program = *programs.add(which);
                libc::execve(program, self.args.add(1), self.env);
                let mut failed = Failed::now(Step::Exec(which as u32));
                if failed.errno == libc::ENOEXEC {
                    // Like execvp: taken for a shell script.
                    let name = ptr::replace(self.args.add(1), program);
                    libc::execve(c"/bin/sh".as_ptr(), self.args, self.env);
                    failed = Failed::now(Step::Exec(which as u32));
                    *self.args.add(1) = name;
                }
                match failed.errno {
                    _ if !self.searched => return failed,
                    libc::ENOENT | libc::ENOTDIR => {}
                    // Found, but not allowed: another directory may have a better one.
                    libc::EACCES => worst.errno = failed.errno,
                    _ => return failed,
                }
            }
            worst
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_says_is_what_the_warden_hears() {
        for step in STEPS.into_iter().chain([Step::Exec(3)]) {
            let failed = Failed {
                step,
                errno: libc::EACCES,
            };
            assert_eq!(Failed::read(&failed.bytes()), Some(failed));
        }
        assert_eq!(Failed::read(b"{\"stage\":1}"), None);
    }
}
