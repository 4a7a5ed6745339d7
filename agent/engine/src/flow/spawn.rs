//! Starting the process of a task: posix_spawn, so that a large engine costs a small one's price.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use farmhand_core::definition::Command;
use libc::{c_char, c_short};

/// What every task of a flow is started with.
#[derive(Debug)]
pub struct Spawner {
    /// `NAME=value`, without the variables that differ from task to task.
    environment: Vec<CString>,
    null: OwnedFd,
}

impl Spawner {
    /// Hands on this process's own environment, with `set` in it.
    pub fn new(set: &[(&str, OsString)]) -> io::Result<Self> {
        let replaced =
            |name: &OsString| name == "FARMHAND_TASK" || set.iter().any(|(n, _)| *n == name.as_os_str());
        let own = std::env::vars_os().filter(|(name, _)| !replaced(name));
        let set = set
            .iter()
            .map(|(name, value)| (OsString::from(name), value.clone()));
        Ok(Self {
            environment: own
                .chain(set)
                .filter_map(|(name, value)| variable(name, value))
                .collect(),
            null: std::fs::File::open("/dev/null")?.into(),
        })
    }

    /// Starts a program in a process group of its own, with its output going to `output`. A file that is
    /// neither a binary nor names its interpreter goes to /bin/sh, as shells have it. `descriptors` as below.
    pub fn spawn(
        &self,
        argv: &[CString],
        variables: &[(String, String)],
        output: BorrowedFd<'_>,
        descriptors: &[(&OwnedFd, i32)],
    ) -> io::Result<i32> {
        match self.spawn_with(argv, variables, output, descriptors) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                let mut shell = vec![c"/bin/sh".to_owned()];
                shell.extend_from_slice(argv);
                self.spawn_with(&shell, variables, output, descriptors)
            }
            other => other,
        }
    }

    /// Of that program alone, with further descriptors: what is open here under the first number is that under the
    /// second.
    pub(crate) fn spawn_with(
        &self,
        argv: &[CString],
        variables: &[(String, String)],
        output: BorrowedFd<'_>,
        descriptors: &[(&OwnedFd, i32)],
    ) -> io::Result<i32> {
        let attributes = Attributes::new(libc::POSIX_SPAWN_SETPGROUP)?;
        let files = self.files(output)?;
        for (from, to) in descriptors {
            files.dup2(from.as_raw_fd(), *to)?;
        }
        self.exec(argv, variables, &attributes, &files)
    }

    /// Starts a shell as the leader of a session whose terminal is `terminal`, with further descriptors.
    pub(crate) fn spawn_leader(
        &self,
        argv: &[CString],
        terminal: &CStr,
        descriptors: &[(&OwnedFd, i32)],
        output: BorrowedFd<'_>,
    ) -> io::Result<i32> {
        let files = self.files(output)?;
        for (from, to) in descriptors {
            files.dup2(from.as_raw_fd(), *to)?;
        }
        files.open(terminal, 5)?;
        self.exec(
            argv,
            &[],
            &Attributes::new(libc::POSIX_SPAWN_SETSID.into())?,
            &files,
        )
    }

    fn files(&self, output: BorrowedFd<'_>) -> io::Result<Files> {
        let files = Files::new()?;
        for (from, to) in [
            (self.null.as_raw_fd(), 0),
            (output.as_raw_fd(), 1),
            (output.as_raw_fd(), 2),
        ] {
            files.dup2(from, to)?;
        }
        Ok(files)
    }

    fn exec(
        &self,
        argv: &[CString],
        variables: &[(String, String)],
        attributes: &Attributes,
        files: &Files,
    ) -> io::Result<i32> {
        let own: Vec<CString> = variables
            .iter()
            .filter_map(|(n, v)| variable(n.into(), v.into()))
            .collect();
        let set_here = |entry: &&CString| {
            let name = entry.as_bytes().split(|b| *b == b'=').next().unwrap_or_default();
            !variables.iter().any(|(n, _)| n.as_bytes() == name)
        };
        let environment = self.environment.iter().filter(set_here).chain(&own);
        let mut envp: Vec<*mut c_char> = environment.map(|e| e.as_ptr().cast_mut()).collect();
        envp.push(std::ptr::null_mut());
        let mut args: Vec<*mut c_char> = argv.iter().map(|a| a.as_ptr().cast_mut()).collect();
        args.push(std::ptr::null_mut());
        let Some(program) = argv.first() else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let mut pid = 0;
        // SAFETY: all arrays end in a null pointer and outlive the call, which copies what it keeps; the
        // search through PATH is what a command by name needs and changes nothing for one with a slash.
        let error = unsafe {
            libc::posix_spawnp(
                &raw mut pid,
                program.as_ptr(),
                files.0.as_ptr(),
                attributes.0.as_ptr(),
                args.as_ptr(),
                envp.as_ptr(),
            )
        };
        check(error).map(|()| pid)
    }
}

pub(crate) fn argv(command: &Command) -> Vec<CString> {
    match command {
        Command::Argv(words) => c_strings(words.iter().map(String::as_str)),
        Command::Shell(text) => c_strings(["/bin/sh", "-c", text]),
    }
}

/// A NUL cannot come out of a file name or a job file.
pub(crate) fn c_strings<'w>(words: impl IntoIterator<Item = &'w str>) -> Vec<CString> {
    let words = words.into_iter();
    words.map(|w| CString::new(w).unwrap_or_default()).collect()
}

/// Neither names nor values can hold a NUL; what does is left out, as execve would have to.
fn variable(name: OsString, value: OsString) -> Option<CString> {
    let mut entry = name.into_vec();
    entry.push(b'=');
    entry.extend(value.into_vec());
    CString::new(entry).ok()
}

fn check(error: i32) -> io::Result<()> {
    match error {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// A group or a session of its own, no signal blocked, none ignored.
struct Attributes(Box<MaybeUninit<libc::posix_spawnattr_t>>);

impl Attributes {
    fn new(own: i32) -> io::Result<Self> {
        let mut attributes = Self(Box::new(MaybeUninit::uninit()));
        let at = attributes.0.as_mut_ptr();
        let flags = own | libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        // SAFETY: initialised first, then changed; the sets are initialised before they are read.
        unsafe {
            check(libc::posix_spawnattr_init(at))?;
            let mut none = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            let mut defaults = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(defaults.as_mut_ptr());
            for signal in [
                libc::SIGPIPE,
                libc::SIGINT,
                libc::SIGQUIT,
                libc::SIGHUP,
                libc::SIGTERM,
            ] {
                libc::sigaddset(defaults.as_mut_ptr(), signal);
            }
            check(libc::posix_spawnattr_setflags(at, flags as c_short))?;
            check(libc::posix_spawnattr_setpgroup(at, 0))?;
            check(libc::posix_spawnattr_setsigmask(at, none.as_ptr()))?;
            check(libc::posix_spawnattr_setsigdefault(at, defaults.as_ptr()))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}

struct Files(Box<MaybeUninit<libc::posix_spawn_file_actions_t>>);

impl Files {
    fn new() -> io::Result<Self> {
        let mut files = Self(Box::new(MaybeUninit::uninit()));
        // SAFETY: initialises what it is given.
        check(unsafe { libc::posix_spawn_file_actions_init(files.0.as_mut_ptr()) })?;
        Ok(files)
    }

    fn dup2(&self, from: i32, to: i32) -> io::Result<()> {
        // SAFETY: initialised by `new`, and used by this thread alone.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(self.0.as_ptr().cast_mut(), from, to) })
    }

    /// For reading and writing. The first terminal that the leader of a session opens becomes the session's.
    fn open(&self, path: &CStr, to: i32) -> io::Result<()> {
        let files = self.0.as_ptr().cast_mut();
        // SAFETY: initialised by `new`; the path is copied.
        check(unsafe { libc::posix_spawn_file_actions_addopen(files, to, path.as_ptr(), libc::O_RDWR, 0) })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}
