//! A network of one's own for the farm, and one for each agent in it.
//!
//! The harness lives in the hub: a network namespace with a bridge, where the servers and proxies listen. Each agent has a
//! namespace with one cable to that bridge, and a mount namespace in which its state directory is a small tmpfs. A
//! namespace is held by a process that dies with the harness, so that nothing of it is ever left, however the
//! harness ends.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::plan::Way;
use crate::processes::{self, Process};

/// Where the bridge, the servers and the proxies are.
pub const HUB: &str = "10.77.0.1";

/// The same with a port.
pub fn hub(port: u16) -> SocketAddr {
    SocketAddr::new(HUB.parse().expect("an address"), port)
}

/// Puts the calling thread, and all that it starts from now on, into a network of its own with a bridge.
///
/// # Panics
/// Without the rights of root, or without `ip`.
pub fn enter_hub() {
    // SAFETY: a plain system call; only this thread moves.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(
        done,
        0,
        "network namespaces need root: {}",
        std::io::Error::last_os_error()
    );
    sh(&format!(
        "ip link set lo up && ip link add br0 type bridge && ip addr add {HUB}/16 dev br0 && ip link set br0 up"
    ));
}

/// One agent's own network and mounts.
pub struct Place {
    holder: Child,
    network: File,
    mounts: File,
    state_dir: PathBuf,
    pub address: IpAddr,
}

impl Place {
    /// The place with this number, from 1; `state_dir` becomes a tmpfs of `megabytes` there.
    pub fn new(number: usize, state_dir: &Path, megabytes: u32) -> Self {
        std::fs::create_dir_all(state_dir).expect("a state directory");
        let holder = hold(state_dir, megabytes);
        let pid = holder.id();
        let file = |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}")).expect("a namespace of ours");
        let (low, high) = (number % 250 + 2, number / 250);
        let address = format!("10.77.{high}.{low}");
        let place = Self {
            address: address.parse().expect("an address"),
            network: file("net"),
            mounts: file("mnt"),
            holder,
            state_dir: state_dir.to_path_buf(),
        };
        sh(&format!(
            "ip link add v{number} type veth peer name eth0 netns {pid} && ip link set v{number} master br0 up"
        ));
        place.sh(&format!(
            "ip link set lo up && ip addr add {address}/16 dev eth0 && ip link set eth0 up && \
             nft 'add table inet f; add chain inet f i {{ type filter hook input priority 0; }}; \
             add chain inet f o {{ type filter hook output priority 0; }}'"
        ));
        place
    }

    /// Descriptors of the namespaces, for [`join`].
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.network.as_raw_fd(), self.mounts.as_raw_fd()]
    }

    /// Packets of one way, or of both, are lost until [`Place::heal`].
    pub fn drop_packets(&self, way: Way) {
        let (inward, outward) = (
            "add rule inet f i iifname eth0 drop",
            "add rule inet f o oifname eth0 drop",
        );
        match way {
            Way::In => self.sh(&format!("nft '{inward}'")),
            Way::Out => self.sh(&format!("nft '{outward}'")),
            Way::Both => self.sh(&format!("nft '{inward}; {outward}'")),
        }
    }

    pub fn heal(&self) {
        self.sh("nft 'flush chain inet f i; flush chain inet f o'");
    }

    /// Takes all the room that is left for the agent's state.
    pub fn fill_disk(&self) {
        let Ok(mut file) = File::create(self.filler()) else {
            return;
        };
        let block = vec![0; 64 * 1024];
        while file.write_all(&block).is_ok() {}
        // The last few bytes too.
        while file.write_all(&[0]).is_ok() {}
    }

    pub fn free_disk(&self) {
        let _ = std::fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.state().join("filler")
    }

    /// The state directory as seen from outside of the mount namespace.
    pub fn state(&self) -> PathBuf {
        let inside = self.state_dir.strip_prefix("/").expect("an absolute path");
        Path::new(&format!("/proc/{}/root", self.holder.id())).join(inside)
    }

    /// Every living process in this network, whatever it did to its environment; who keeps the network is none of them.
    pub fn inhabitants(&self) -> Vec<Process> {
        let holder = self.holder.id().cast_signed();
        let network = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let own = network(holder);
        processes::all()
            .into_iter()
            .filter(|p| p.pid != holder && p.state != 'Z' && own.is_some() && network(p.pid) == own)
            .collect()
    }

    /// A connection to a port of its loopback, not blocking.
    pub async fn connect(&self, port: u16) -> Option<std::net::TcpStream> {
        let network = self.network.try_clone().ok()?;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // A thread of its own, because it moves to another network for good.
        std::thread::spawn(move || {
            let connect = || {
                // SAFETY: a plain system call on a descriptor that this thread owns.
                if unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                    return None;
                }
                let at = std::net::SocketAddr::from(([127, 0, 0, 1], port));
                let stream = std::net::TcpStream::connect_timeout(&at, Duration::from_secs(1)).ok()?;
                stream.set_nonblocking(true).ok()?;
                Some(stream)
            };
            let _ = sender.send(connect());
        });
        receiver.await.ok().flatten()
    }

    fn sh(&self, script: &str) {
        let pid = self.holder.id().to_string();
        run(Command::new("nsenter").args(["-t", &pid, "-n", "/bin/sh", "-c", script]));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Joins namespaces; between fork and exec.
pub fn join(descriptors: [RawFd; 2]) -> std::io::Result<()> {
    for descriptor in descriptors {
        // SAFETY: a plain system call on a descriptor that the caller keeps open.
        if unsafe { libc::setns(descriptor, 0) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A process that does nothing but keep two namespaces.
fn hold(state_dir: &Path, megabytes: u32) -> Child {
    let target = CString::new(state_dir.display().to_string()).expect("a path without NUL");
    let options = CString::new(format!("size={megabytes}m,mode=0711")).expect("no NUL");
    let mut command = Command::new("sleep");
    command.arg("infinity").stdin(Stdio::null()).stdout(Stdio::null());
    // SAFETY: system calls alone between fork and exec, on memory prepared before.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let none = std::ptr::null();
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let tmpfs = c"tmpfs".as_ptr();
            let done = libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) == 0
                && libc::mount(none, c"/".as_ptr(), none, private, none.cast()) == 0
                && libc::mount(tmpfs, target.as_ptr(), tmpfs, 0, options.as_ptr().cast()) == 0;
            if done {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    command.spawn().expect("a namespace needs root")
}

fn sh(script: &str) {
    run(Command::new("/bin/sh").args(["-c", script]));
}

fn run(command: &mut Command) {
    let out = command
        .output()
        .expect("these tests need iproute2, nftables and util-linux");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}");
}
