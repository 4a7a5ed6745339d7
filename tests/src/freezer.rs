//! Uninterruptible sleep on demand: the freezer of cgroup v1, whose SIGKILL stays pending until the thaw. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BOUND: Duration = Duration::from_secs(10);

/// Frozen processes; thawed when dropped.
#[derive(Debug)]
pub struct Frozen {
    dir: PathBuf,
    /// Where the freezer was mounted for this, if it was not mounted already.
    mounted: Option<tempfile::TempDir>,
}

impl Frozen {
    /// # Panics
    /// Without root, or without a freezer of cgroup v1.
    #[must_use]
    pub fn new(pid: i32) -> Self {
        let (root, mounted) = match root() {
            Some(root) => (root, None),
            None => {
                let at = tempfile::tempdir().unwrap();
                mount(at.path());
                (at.path().to_owned(), Some(at))
            }
        };
        let dir = root.join(format!("farmhand-test-{pid}"));
        fs::create_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let frozen = Self { dir, mounted };
        fs::write(frozen.dir.join("cgroup.procs"), pid.to_string()).unwrap();
        frozen.become_("FROZEN");
        frozen
    }

    fn become_(&self, state: &str) {
        let file = self.dir.join("freezer.state");
        let until = Instant::now() + BOUND;
        loop {
            fs::write(&file, state).unwrap();
            if fs::read_to_string(&file).unwrap().trim() == state {
                return;
            }
            assert!(Instant::now() < until, "{} never became {state}", file.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.become_("THAWED");
        let until = Instant::now() + BOUND;
        while fs::remove_dir(&self.dir).is_err() && Instant::now() < until {
            for pid in fs::read_to_string(self.dir.join("cgroup.procs"))
                .unwrap_or_default()
                .lines()
            {
                // Back to the root of the hierarchy, if it is still alive.
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

/// Where the freezer is mounted.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut kind = right.split(' ');
        let is_freezer = kind.next() == Some("cgroup")
            && kind.nth(1).is_some_and(|o| o.split(',').any(|o| o == "freezer"));
        is_freezer.then(|| left.split(' ').nth(4))?
    });
    mount.map(PathBuf::from)
}

fn mount(at: &Path) {
    let path = std::ffi::CString::new(at.to_str().unwrap()).unwrap();
    // SAFETY: valid strings.
    let failed = unsafe {
        libc::mount(
            c"farmhand-test".as_ptr(),
            path.as_ptr(),
            c"cgroup".as_ptr(),
            0,
            c"freezer".as_ptr().cast(),
        )
    };
    let error = std::io::Error::last_os_error();
    assert_eq!(failed, 0, "no freezer of cgroup v1 (root needed): {error}");
}
