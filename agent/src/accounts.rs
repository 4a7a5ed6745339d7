//! The machine's users.

use std::ffi::CString;
use std::io;

/// Whose processes and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
}

/// Looks a name up, in whatever directory this machine has.
///
/// # Errors
/// The directory does not answer; that is not "no such user".
pub fn find(name: &str) -> io::Result<Option<Account>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    let mut buffer = vec![0_u8; 16 << 10];
    loop {
        // SAFETY: passwd is plain data for which all zeroes is a valid value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        // SAFETY: every pointer is valid for the call and the buffer's length is its own.
        let error = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                &mut entry,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &mut found,
            )
        };
        if error == libc::ERANGE && buffer.len() < 16 << 20 {
            buffer.resize(buffer.len() * 4, 0);
            continue;
        }
        if !found.is_null() {
            return Ok(Some(Account {
                uid: entry.pw_uid,
                gid: entry.pw_gid,
            }));
        }
        return match error {
            0 | libc::ENOENT | libc::ESRCH => Ok(None),
            error => Err(io::Error::from_raw_os_error(error)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_and_nobody_of_a_strange_name() {
        assert_eq!(find("root").unwrap(), Some(Account { uid: 0, gid: 0 }));
        assert_eq!(find("no such user").unwrap(), None);
        assert_eq!(find("a\0b").unwrap(), None);
    }
}
