//! The machine's users.

use std::ffi::{CStr, CString};
use std::io;

/// Whose processes and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
///
/// # Errors
/// The directory does not answer; that is not "no such user".
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
///
/// # Errors
/// As [`find`].
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
}
