//! One server for all test processes of a run: the first one starts it, and it ends by itself some
//! seconds after the last one.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use farmhand_store::migrate::MIGRATIONS;
use farmhand_store::roles;

use super::cluster::{Cluster, programs};
use super::{ADMIN, connect, make_migrated, make_owner, services};
use crate::ports::free_port;

/// Keeps the server running while any test process holds a shared lock on `users`, and for 10 s after.
/// It stops the server under the exclusive lock, so that nobody joins a server that is ending.
const KEEPER: &str = r#"
dir=$1; shift
"$@" & server=$!
idle=0
while kill -0 $server 2>/dev/null; do
    sleep 1
    if flock -n -x "$dir/users" true; then idle=$((idle + 1)); else idle=0; fi
    [ $idle -lt 10 ] && continue
    exec 9<"$dir/users"
    flock -n -x 9 || { exec 9<&-; idle=0; continue; }
    kill -INT $server; wait $server
    rm -rf "$dir/data" "$dir/log" "$dir/port"
    exit
done
"#;

const START: Duration = Duration::from_secs(60);

/// A share in the server: it runs at least as long as this process.
#[derive(Clone)]
pub struct Shared {
    pub cluster: Cluster,
    /// A migrated database nobody is connected to.
    pub template: String,
    _users: Arc<File>,
}

impl Shared {
    pub async fn join() -> Self {
        static MINE: OnceLock<Shared> = OnceLock::new();
        if let Some(shared) = MINE.get() {
            return shared.clone();
        }
        let dir = directory();
        fs::create_dir_all(&dir).expect("a directory for the shared server");
        // One at a time: looking, starting, making the template.
        let gate = lock_file(&dir.join("gate"));
        flock(&gate, libc::LOCK_EX);
        // Waits while the keeper ends a server, and then finds none.
        let users = lock_file(&dir.join("users"));
        flock(&users, libc::LOCK_SH);

        let cluster = match fs::read_to_string(dir.join("port"))
            .ok()
            .and_then(|p| p.trim().parse().ok())
        {
            Some(port) if Cluster::at(&dir, port).is_ready() => Cluster::at(&dir, port),
            _ => start(&dir).await,
        };
        let template = template_name();
        let admin = connect(&cluster.url("postgres", ADMIN)).await;
        let known = admin
            .query_opt(
                "SELECT 1 FROM pg_database WHERE datname = $1 AND datistemplate",
                &[&template],
            )
            .await
            .expect("a list of databases");
        if known.is_none() {
            // What a killed test process left half made.
            let (drop, mark) = (
                format!("DROP DATABASE IF EXISTS {template}"),
                format!("ALTER DATABASE {template} IS_TEMPLATE true"),
            );
            admin.exec(&drop).await;
            make_owner(|database, user| cluster.url(database, user)).await;
            make_migrated(|database, user| cluster.url(database, user), &template).await;
            admin.exec(&mark).await;
        }
        // The template must have no session when it is copied, and the store's may still be closing.
        let deadline = Instant::now() + START;
        while admin
            .query_one(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = $1",
                &[&template],
            )
            .await
            .expect("a count")
            .get::<_, i64>(0)
            > 0
        {
            assert!(Instant::now() < deadline, "sessions stay in the template");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let shared = Self {
            cluster,
            template,
            _users: Arc::new(users),
        };
        MINE.get_or_init(|| shared).clone()
    }
}

async fn start(dir: &Path) -> Cluster {
    for left in ["data", "log", "port"] {
        let path = dir.join(left);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
    let cluster = Cluster::at(dir, free_port());
    cluster.init();
    let mut arguments = vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        KEEPER.to_owned(),
        "farmhand-test-postgres-keeper".to_owned(),
        dir.display().to_string(),
    ];
    arguments.extend(cluster.arguments(&[
        ("fsync", "off"),
        ("full_page_writes", "off"),
        // Plans are looked at by tests that analyse by themselves.
        ("autovacuum", "off"),
    ]));
    let mut keeper = cluster.logged(&arguments);
    // Out of the test's session and process group: a runner that kills a test must not end the server.
    // SAFETY: a plain system call between fork and exec.
    unsafe {
        keeper.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    let mut keeper = keeper.spawn().expect("a shell for the server's keeper");
    // It outlives this process as a rule; when it does not, it must not stay as a zombie.
    std::thread::spawn(move || keeper.wait());
    let deadline = Instant::now() + START;
    while !cluster.is_ready() {
        assert!(
            Instant::now() < deadline,
            "the shared server did not start:\n{}",
            cluster.log_tail()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fs::write(dir.join("port"), cluster.port.to_string()).expect("the port's file");
    cluster
}

/// One directory per target directory, server program and service: short, and where the server's user can reach it.
fn directory() -> PathBuf {
    let service = services::chosen().unwrap_or_default();
    let target = format!("{} {}{service}", env!("CARGO_MANIFEST_DIR"), programs().display());
    // SAFETY: getuid cannot fail.
    let uid = unsafe { libc::getuid() };
    PathBuf::from(format!("/tmp/farmhand-tests-{uid}-{:08x}", short_hash(&target)))
}

fn template_name() -> String {
    let all: String = MIGRATIONS.iter().map(|m| m.checksum()).collect();
    let all = all + roles::LIST;
    format!("template_{:08x}", short_hash(&all))
}

/// FNV-1a, 32 bits: <https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>.
fn short_hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

fn lock_file(path: &Path) -> File {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // The keeper may be another user.
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o666));
    file
}

fn flock(file: &File, how: i32) {
    // SAFETY: the descriptor is open for the call.
    let done = unsafe { libc::flock(file.as_raw_fd(), how) };
    assert_eq!(done, 0, "flock: {}", std::io::Error::last_os_error());
}
