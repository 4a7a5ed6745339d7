//! Processes in a cgroup of version 1 that is made for them. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const BOUND: Duration = Duration::from_secs(10);

/// Removed when dropped; what lives there goes back to the root.
#[derive(Debug)]
pub struct Group {
    pub dir: PathBuf,
    /// Where the controller was mounted for this, if it was not mounted already.
    mounted: Option<tempfile::TempDir>,
}

impl Group {
    /// # Panics
    /// Without root, or without this controller of cgroup v1.
    #[must_use]
    pub fn new(controller: &str, name: &str) -> Self {
        Self::try_new(controller, name)
            .unwrap_or_else(|| panic!("a {controller} cgroup {name} is already there"))
    }

    /// `None` when there is one of this name already.
    ///
    /// # Panics
    /// Without root, or without this controller of cgroup v1.
    #[must_use]
    pub fn try_new(controller: &str, name: &str) -> Option<Self> {
        let (root, mounted) = match root(controller) {
            Some(root) => (root, None),
            None => {
                let at = tempfile::tempdir().unwrap();
                mount(at.path(), controller);
                (at.path().to_owned(), Some(at))
            }
        };
        let dir = root.join(format!("farmhand-test-{name}"));
        match fs::create_dir(&dir) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => None,
            made => {
                made.unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
                Some(Self { dir, mounted })
            }
        }
    }

    /// Whether the process was there to be taken in.
    pub fn take_in(&self, pid: i32) -> bool {
        fs::write(self.dir.join("cgroup.procs"), pid.to_string()).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + BOUND;
        while fs::remove_dir(&self.dir).is_err() && Instant::now() < until {
            let living = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
            for pid in living.lines() {
                let _ = fs::write(self.dir.with_file_name("cgroup.procs"), pid);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(at) = &self.mounted {
            let path = std::ffi::CString::new(at.path().to_str().unwrap()).unwrap();
            // SAFETY: a valid path, which this mounted.
            unsafe { libc::umount(path.as_ptr()) };
        }
    }
}

/// Where the controller is mounted.
fn root(controller: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut kind = right.split(' ');
        let is_it = kind.next() == Some("cgroup")
            && kind.nth(1).is_some_and(|o| o.split(',').any(|o| o == controller));
        is_it.then(|| left.split(' ').nth(4))?
    });
    mount.map(PathBuf::from)
}

fn mount(at: &Path, controller: &str) {
    let path = std::ffi::CString::new(at.to_str().unwrap()).unwrap();
    let data = std::ffi::CString::new(controller).unwrap();
    // SAFETY: valid strings.
    let failed = unsafe {
        libc::mount(
            c"farmhand-test".as_ptr(),
            path.as_ptr(),
            c"cgroup".as_ptr(),
            0,
            data.as_ptr().cast(),
        )
    };
    let error = std::io::Error::last_os_error();
    assert_eq!(
        failed, 0,
        "no controller {controller} of cgroup v1 (root needed): {error}"
    );
}
