//! The machine's users.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Whose processes and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
}

/// A user as the machine's directory has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub account: Account,
    pub name: CString,
    pub home: CString,
}

/// Looks a name up, in whatever directory this machine has.
pub fn find(name: &str) -> io::Result<Option<User>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    look_up(|entry, buffer, found| {
        // SAFETY: every pointer is valid for the call and the buffer's length is its own.
        unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                found,
            )
        }
    })
}

/// The user of a number.
pub fn of(uid: u32) -> io::Result<Option<User>> {
    look_up(|entry, buffer, found| {
        // SAFETY: every pointer is valid for the call and the buffer's length is its own.
        unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr().cast(), buffer.len(), found) }
    })
}

fn look_up(
    ask: impl Fn(&mut libc::passwd, &mut [u8], &mut *mut libc::passwd) -> i32,
) -> io::Result<Option<User>> {
    let mut buffer = vec![0_u8; 16 << 10];
    loop {
        // SAFETY: passwd is plain data for which all zeroes is a valid value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        let error = ask(&mut entry, &mut buffer, &mut found);
        if error == libc::ERANGE && buffer.len() < 16 << 20 {
            buffer.resize(buffer.len() * 4, 0);
            continue;
        }
        if !found.is_null() {
            return Ok(Some(User {
                account: Account {
                    uid: entry.pw_uid,
                    gid: entry.pw_gid,
                },
                name: text(entry.pw_name),
                home: text(entry.pw_dir),
            }));
        }
        return match error {
            0 | libc::ENOENT | libc::ESRCH => Ok(None),
            error => Err(io::Error::from_raw_os_error(error)),
        };
    }
}

/// One user, by the file that every machine has, read again only when that has changed. It asks no directory service and
/// so waits for none: whom it does not know, or where another directory is asked first, [`of`] may still find.
#[derive(Debug)]
pub struct Listed {
    uid: u32,
    order: PathBuf,
    list: PathBuf,
    read: Option<([Stamp; 2], Option<User>)>,
}

/// Device, file, size, and when it was changed.
type Stamp = (u64, u64, u64, i64, i64);

impl Listed {
    /// Looks the user up in `/etc/passwd` whenever that has changed.
    pub fn new(uid: u32) -> Listed {
        Self::among(uid, Path::new("/etc"))
    }

    fn among(uid: u32, dir: &Path) -> Listed {
        Listed {
            uid,
            order: dir.join("nsswitch.conf"),
            list: dir.join("passwd"),
            read: None,
        }
    }

    /// The user as the list has it now; None when it does not say.
    pub fn user(&mut self) -> Option<&User> {
        let now = [stamp(&self.order)?, stamp(&self.list)?];
        if self.read.as_ref().is_none_or(|(then, _)| *then != now) {
            let order = fs::read_to_string(&self.order).ok()?;
            let list = fs::read(&self.list).ok()?;
            let found = comes_first(&order).then(|| in_list(&list, self.uid)).flatten();
            self.read = Some((now, found));
        }
        self.read.as_ref().and_then(|(_, found)| found.as_ref())
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let found = fs::metadata(file).ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.size(),
        found.ctime(),
        found.ctime_nsec(),
    ))
}

/// Whether nsswitch.conf(5) has users looked for in files before anything else.
fn comes_first(order: &str) -> bool {
    let users = order
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("passwd:"));
    users.is_some_and(|sources| sources.split_ascii_whitespace().next() == Some("files"))
}

/// The first line of passwd(5) with that number.
fn in_list(list: &[u8], uid: u32) -> Option<User> {
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u32>().ok();
    list.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let [name, _, id, group, _, home, _] = fields.as_slice() else {
            return None;
        };
        if number(id)? != uid || matches!(name.first(), None | Some(b'+' | b'-' | b'#')) {
            return None;
        }
        Some(User {
            account: Account {
                uid,
                gid: number(group)?,
            },
            name: CString::new(*name).ok()?,
            home: CString::new(*home).ok()?,
        })
    })
}

fn text(pointer: *const libc::c_char) -> CString {
    if pointer.is_null() {
        return CString::default();
    }
    // SAFETY: a found entry's strings end with a zero and live in the buffer, which is still there.
    unsafe { CStr::from_ptr(pointer) }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_and_nobody_of_a_strange_name() {
        let root = find("root").unwrap().unwrap();
        assert_eq!(root.account, Account { uid: 0, gid: 0 });
        assert_eq!((root.name.as_c_str(), root.home.as_c_str()), (c"root", c"/root"));
        assert_eq!(of(0).unwrap(), Some(root));
        assert_eq!(find("no such user").unwrap(), None);
        assert_eq!(find("a\0b").unwrap(), None);
        assert_eq!(of(u32::MAX - 7).unwrap(), None);
    }

    #[test]
    fn the_list_says_what_the_directory_says() {
        let mut listed = Listed::new(0);
        assert_eq!(listed.user(), of(0).unwrap().as_ref());
        assert_eq!(listed.user(), of(0).unwrap().as_ref());
    }

    #[test]
    fn a_changed_list_is_read_again_and_one_that_is_not_asked_first_is_not_believed() {
        let dir = std::env::temp_dir().join(format!("farmhand-accounts-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let write = |file: &str, text: &str| {
            fs::write(dir.join("new"), text).unwrap();
            fs::rename(dir.join("new"), dir.join(file)).unwrap();
        };
        let home = |listed: &mut Listed| listed.user().map(|user| user.home.to_str().unwrap().to_owned());
        let mut listed = Listed::among(7, &dir);
        assert_eq!(home(&mut listed), None);
        write("nsswitch.conf", "group: sss\n passwd: files systemd\n");
        write(
            "passwd",
            "+a:x:7:7::/no:/bin/sh\n\nhalf:x:7\na:x:7:8::/a:/bin/sh\n",
        );
        assert_eq!(home(&mut listed).as_deref(), Some("/a"));
        write("passwd", "a:x:7:8::/b:/bin/sh\n");
        assert_eq!(home(&mut listed).as_deref(), Some("/b"));
        write("nsswitch.conf", "passwd: sss files\n");
        assert_eq!(home(&mut listed), None);
        write("nsswitch.conf", "group: files\n");
        assert_eq!(home(&mut listed), None);
        fs::remove_dir_all(&dir).unwrap();
    }
}
