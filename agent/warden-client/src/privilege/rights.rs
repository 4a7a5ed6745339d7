//! Giving up root's rights, for good.

use std::io;

use farmhand_os::accounts::Account;

/// Becomes this user with its own group alone, without a capability and without a way to get one back. The process must
/// have one thread.
/// Errors: When any part of it is refused, or did not take: then nothing may go on.
pub(super) fn give_up(to: Account) -> io::Result<()> {
    let done = |result: i32| match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    };
    let mut wanted = 0;
    // SAFETY: reads and changes this process's own attributes; every pointer is valid for its call.
    unsafe {
        // Whoever wants this process to end with its parent still wants it: a change of user would clear that.
        done(libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut wanted))?;
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        for capability in 0..=LAST_POSSIBLE {
            // Not one of this kernel's; or, in a container, not ours to drop, and then no way to anything either.
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                break;
            }
        }
        done(libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        ))?;
        done(libc::prctl(libc::PR_SET_KEEPCAPS, 0, 0, 0, 0))?;
        done(libc::setgroups(0, std::ptr::null()))?;
        done(libc::setresgid(to.gid, to.gid, to.gid))?;
        done(libc::setresuid(to.uid, to.uid, to.uid))?;
        no_capabilities()?;
        if wanted != 0 {
            done(libc::prctl(
                libc::PR_SET_PDEATHSIG,
                wanted as libc::c_ulong,
                0,
                0,
                0,
            ))?;
        }
        if libc::setresuid(0, 0, 0) == 0 || libc::geteuid() != to.uid || libc::getegid() != to.gid {
            return Err(io::Error::other("the rights of root could be taken back"));
        }
    }
    Ok(())
}

const LAST_POSSIBLE: libc::c_ulong = 63;

/// Also those that only an exec would bring.
fn no_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let none = [[0_u32; 3]; 2];
    // SAFETY: as capset(2) takes them, version 3: a header and two sets of three words.
    match unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
