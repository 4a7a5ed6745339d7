//! A file system in memory, for as long as the value lives. Only root may mount.

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Tmpfs(PathBuf);

impl Tmpfs {
    /// # Panics
    /// When the mount is refused.
    pub fn mount(at: &Path, size: &str) -> Self {
        std::fs::create_dir_all(at).expect("a mount point");
        let options = format!("size={size},mode=0711");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "farmhand-test"]);
        let mounted = mount.arg(at).status().expect("mount runs");
        assert!(mounted.success(), "this test mounts a tmpfs: run it as root");
        Self(at.to_path_buf())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
