use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use farmhand::embedded::{Embedded, EmbeddedError, Place};
use farmhand_tests::processes;
use farmhand_tests::wait::eventually;
use tempfile::TempDir;

use super::running::Dev;
use farmhand_tests::pg::connect;

const PATIENCE: Duration = Duration::from_secs(4);

/// A directory that the server's user may pass through, which a plain temporary directory is not.
pub fn scratch() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir
}

pub fn start(dir: &Path) -> Embedded {
    let place = Place::prepare(dir).expect("a place for the server");
    Embedded::start(place).unwrap_or_else(|e| panic!("{e}\n{}", e.advice().unwrap_or_default()))
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: plain system call on a process that this test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[tokio::test]
async fn data_written_before_a_stop_is_there_after_the_next_start() {
    let dir = scratch();
    let server = start(dir.path());
    let client = connect(&server.place().url()).await;
    client.exec("CREATE TABLE kept AS SELECT 1 AS one").await;
    let pid = server.pid();
    server.stop(PATIENCE);
    assert_eq!(processes::one(pid), None, "the server is gone when stop returns");
    assert!(processes::with_command(dir.path().to_str().unwrap()).is_empty());

    let again = start(dir.path());
    let row = connect(&again.place().url())
        .await
        .query_one("SELECT one FROM kept", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
}

#[tokio::test]
async fn a_server_that_was_killed_starts_again_with_what_it_had_committed() {
    let dir = scratch();
    let mut server = start(dir.path());
    connect(&server.place().url())
        .await
        .exec("CREATE TABLE kept AS SELECT 1 AS one")
        .await;
    kill(server.pid(), libc::SIGKILL);
    eventually("the end is noticed", PATIENCE, || {
        server.ended().ok_or("still there".to_owned())
    });
    drop(server);

    let again = start(dir.path());
    let row = connect(&again.place().url())
        .await
        .query_one("SELECT one FROM kept", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
}

#[tokio::test]
async fn a_stale_pid_file_that_names_somebody_else_is_no_obstacle() {
    let dir = scratch();
    let mut server = start(dir.path());
    let others = scratch();
    let other = start(others.path());
    let pid_file = server.place().data.join("postmaster.pid");
    kill(server.pid(), libc::SIGKILL);
    eventually("the end is noticed", PATIENCE, || {
        server.ended().ok_or("still there".to_owned())
    });
    drop(server);
    // The same user's process has the number now, which PostgreSQL itself takes for a running server.
    let stale = std::fs::read_to_string(&pid_file).unwrap();
    let (_, rest) = stale.split_once('\n').unwrap();
    std::fs::write(&pid_file, format!("{}\n{rest}", other.pid())).unwrap();

    let again = start(dir.path());
    connect(&again.place().url())
        .await
        .query_one("SELECT 1", &[])
        .await
        .unwrap();
}

#[tokio::test]
async fn nobody_listens_on_the_network() {
    let dir = scratch();
    let server = start(dir.path());
    let row = connect(&server.place().url())
        .await
        .query_one("SHOW listen_addresses", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, String>(0), "");
}

#[test]
fn a_half_made_cluster_is_made_anew() {
    let dir = scratch();
    let place = Place::prepare(dir.path()).unwrap();
    let unfinished = place.data.with_file_name("unfinished");
    std::fs::create_dir(&unfinished).unwrap();
    std::fs::write(unfinished.join("PG_VERSION"), "15\n").unwrap();
    start(dir.path()).stop(PATIENCE);
    assert!(!unfinished.exists());
}

#[test]
fn data_of_a_version_that_is_not_installed_is_refused_by_name() {
    let dir = scratch();
    let place = Place::prepare(dir.path()).unwrap();
    std::fs::create_dir(&place.data).unwrap();
    std::fs::write(place.data.join("PG_VERSION"), "7\n").unwrap();
    let error = Embedded::start(place).unwrap_err();
    assert!(matches!(error, EmbeddedError::OtherVersion { .. }), "{error}");
    assert!(error.to_string().contains("belongs to PostgreSQL 7"), "{error}");
    let advice = error.advice().unwrap();
    assert!(advice.contains("apt-get install postgresql-7"), "{advice}");
    assert!(advice.contains("--data"), "{advice}");
}

#[tokio::test]
async fn a_directory_that_the_server_may_not_enter_gets_a_link_to_one_that_it_may() {
    let closed = scratch();
    std::fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).unwrap();
    let server = start(closed.path());
    connect(&server.place().url())
        .await
        .query_one("SELECT 1", &[])
        .await
        .unwrap();
    let home = server.place().data.parent().unwrap().to_path_buf();
    server.stop(PATIENCE);
    assert_eq!(closed.path().join("postgres").canonicalize().unwrap(), home);
    // SAFETY: geteuid cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    assert_eq!(
        home.starts_with("/var/lib"),
        root,
        "only root's server is another user"
    );
    start(closed.path()).stop(PATIENCE);
    std::fs::remove_dir_all(home).unwrap();
}

#[tokio::test]
async fn removing_a_farms_directory_removes_its_data_from_the_next_start_too() {
    // SAFETY: geteuid cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let closed = scratch();
    std::fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).unwrap();
    let mut homes = Vec::new();
    for round in 0..3 {
        let server = start(closed.path());
        let place = server.place();
        let home = place.data.parent().unwrap().to_path_buf();
        let before = (round > 0).then(|| home.with_extension(format!("before.{round}")));
        assert_eq!(place.put_aside, before);
        let made = connect(&server.place().url())
            .await
            .batch_execute("CREATE TABLE made ()")
            .await;
        assert!(made.is_ok(), "round {round}: {made:?}");
        server.stop(PATIENCE);
        // All of a directory below /root that lies there.
        std::fs::remove_file(closed.path().join("postgres")).unwrap();
        homes.extend([Some(home), before]);
    }
    for home in homes.into_iter().flatten() {
        let _ = std::fs::remove_dir_all(home);
    }
}

#[tokio::test]
async fn a_schema_of_another_build_is_refused_with_what_to_remove() {
    let dir = scratch();
    let server = start(dir.path());
    farmhand_store::migrate::migrate(&farmhand_tests::pg::config(&server.place().url()))
        .await
        .unwrap();
    let changed = "UPDATE farmhand.schema_version SET checksum = 'other' WHERE version = 1";
    connect(&server.place().url()).await.exec(changed).await;
    server.stop(PATIENCE);
    let mut dev = Dev::command_for(dir.path(), farmhand_tests::ports::free_port());
    // What the shell has set is for its own commands.
    dev.env("FARMHAND_DATABASE_PASSWORD_FILE", "/not/there");
    let out = dev.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(4), "{said}");
    let advice = format!(
        "choose another directory with --data, or remove {}",
        dir.path().display()
    );
    assert!(said.contains(&advice), "{said}");
}
