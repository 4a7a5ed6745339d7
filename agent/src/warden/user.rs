//! Becoming a job's user. Runs in the forked child: a directory service that does not answer delays one
//! attempt, and its timeout ends it, instead of the warden.

use std::ffi::CString;
use std::io;
use std::path::Path;

use super::child::system;
use super::protocol::{Stage, StartFailure};
use crate::accounts::{self, Account};

#[derive(Debug)]
pub struct User {
    uid: u32,
    gid: u32,
    name: CString,
}

pub fn find(name: &str) -> Result<User, StartFailure> {
    let no_such = || system(Stage::NoSuchUser, name, &io::Error::other(""));
    match accounts::find(name) {
        Ok(Some(Account { uid, gid })) => {
            let name = CString::new(name).map_err(|_| no_such())?;
            Ok(User { uid, gid, name })
        }
        Ok(None) => Err(no_such()),
        Err(error) => Err(system(Stage::User, name, &error)),
    }
}

impl User {
    pub fn own(&self, dir: &Path, name: &str) -> Result<(), StartFailure> {
        std::os::unix::fs::chown(dir, Some(self.uid), Some(self.gid)).map_err(|e| match e.raw_os_error() {
            // Whoever may not give files away may not become the user either; that says it better.
            Some(libc::EPERM) => system(Stage::User, name, &e),
            _ => system(Stage::RunDir, &dir.display().to_string(), &e),
        })
    }

    /// User, group and supplementary groups, for good.
    pub fn become_it(&self, name: &str) -> Result<(), StartFailure> {
        let us = rustix::process::geteuid().as_raw();
        if us != 0 && us == self.uid {
            return Ok(());
        }
        // SAFETY: changes this process's own credentials; the name is a valid string.
        let done = unsafe {
            libc::initgroups(self.name.as_ptr(), self.gid) == 0
                && libc::setresgid(self.gid, self.gid, self.gid) == 0
                && libc::setresuid(self.uid, self.uid, self.uid) == 0
        };
        if done {
            Ok(())
        } else {
            Err(system(Stage::User, name, &io::Error::last_os_error()))
        }
    }
}
