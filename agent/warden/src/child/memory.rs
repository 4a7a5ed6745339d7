//! Memory for a child that gets no copy of the heap.

use std::ffi::{CString, c_char};
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

/// Lists of strings outside of the heap.
#[derive(Debug)]
pub(crate) struct Memory {
    at: *mut u8,
    size: usize,
}

impl Memory {
    /// Copies of these, each list with a null at its end; and where the lists are.
    pub(crate) fn holding<const N: usize>(
        lists: [&[CString]; N],
    ) -> io::Result<(Memory, [*mut *const c_char; N])> {
        let pointers: usize = lists.iter().map(|list| list.len() + 1).sum();
        let bytes: usize = lists
            .iter()
            .copied()
            .flatten()
            .map(|text| text.count_bytes() + 1)
            .sum();
        let size = pointers * size_of::<*const c_char>() + bytes;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of its own.
        let at = unsafe { libc::mmap(ptr::null_mut(), size, access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = Memory { at: at.cast(), size };
        let mut pointer: *mut *const c_char = at.cast();
        // SAFETY: the mapping has room for all pointers, and behind them for all strings.
        let mut text: *mut u8 = unsafe { pointer.add(pointers).cast() };
        let lists = lists.map(|list| {
            let begin = pointer;
            for string in list {
                let bytes = string.as_bytes_with_nul();
                // SAFETY: within that room.
                unsafe {
                    ptr::copy_nonoverlapping(bytes.as_ptr(), text, bytes.len());
                    pointer.write(text.cast_const().cast());
                    (pointer, text) = (pointer.add(1), text.add(bytes.len()));
                }
            }
            // SAFETY: the same.
            unsafe {
                pointer.write(ptr::null());
                pointer = pointer.add(1);
            }
            begin
        });
        Ok((memory, lists))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own; its owner keeps the pointers into it no longer than this value.
        unsafe { libc::munmap(self.at.cast(), self.size) };
    }
}

/// While it lives, a forked child does not have this process's heap, and must not ask for any.
#[derive(Debug)]
pub(crate) struct HeapWithheld(Range<usize>);

impl HeapWithheld {
    pub(crate) fn now() -> HeapWithheld {
        // Where it begins never changes.
        static BEGIN: OnceLock<usize> = OnceLock::new();
        let begin = *BEGIN.get_or_init(|| heap_begins().unwrap_or(usize::MAX));
        // SAFETY: asks where the heap ends.
        let end = unsafe { libc::sbrk(0) } as usize;
        let mut heap = HeapWithheld(begin..end.max(begin));
        // SAFETY: asks where this thread has its errno: a libc may keep what each thread has in the heap, too.
        if heap.0.contains(&(unsafe { libc::__errno_location() } as usize)) {
            heap.0.end = begin;
        }
        heap.advise(libc::MADV_DONTFORK);
        heap
    }

    /// An error is ignored: the child then gets a copy, which is only slower.
    fn advise(&self, advice: i32) {
        let Range { start, end } = self.0;
        if start < end {
            // SAFETY: changes what a fork copies, and nothing that is read or written here.
            unsafe { libc::madvise(start as *mut _, end - start, advice) };
        }
    }
}

impl Drop for HeapWithheld {
    fn drop(&mut self) {
        self.advise(libc::MADV_DOFORK);
    }
}

fn heap_begins() -> Option<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let heap = maps.lines().find(|line| line.ends_with("[heap]"))?;
    usize::from_str_radix(heap.split('-').next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child_has(page: usize) -> bool {
        // SAFETY: the child makes two system calls, and no other.
        unsafe {
            let pid = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32;
            if pid == 0 {
                let mut resident = 0;
                let found = libc::mincore(page as *mut _, 1, &raw mut resident) == 0;
                libc::_exit(i32::from(found))
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
            libc::WEXITSTATUS(status) == 1
        }
    }

    #[test]
    fn a_child_has_the_heap_only_when_it_is_not_withheld() {
        let begin = heap_begins().unwrap();
        {
            let _withheld = HeapWithheld::now();
            assert!(!child_has(begin));
        }
        assert!(child_has(begin));
    }

    #[test]
    fn lists_end_in_a_null_and_hold_what_they_were_given() {
        let texts = [
            c"a".to_owned(),
            c"".to_owned(),
            c"longer than eight bytes".to_owned(),
        ];
        let (_memory, [none, some]) = Memory::holding([&[], &texts]).unwrap();
        // SAFETY: read as they were written.
        unsafe {
            assert!((*none).is_null());
            for (n, text) in texts.iter().enumerate() {
                assert_eq!(std::ffi::CStr::from_ptr(*some.add(n)), text.as_c_str());
            }
            assert!((*some.add(texts.len())).is_null());
        }
    }
}
