//! What keeps an agent from starting: said clearly, with the exit code that scripts lean on.

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::pg::{Options, PrivateServer, TestDb};

/// Starts the one agent of the farm and gives its exit code and what it said.
async fn refused(mut farm: Farm) -> (Option<i32>, String) {
    farm.agents[0].spawn();
    let status = farm.agents[0].exit(SOON).await;
    let said = farm.agents[0].log();
    eprintln!("{said}");
    assert!(said.contains("error: "), "{said}");
    (status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_a_denial() {
    let server = PrivateServer::start(Options::default()).await;
    let admin = server.admin().await;
    admin
        .batch_execute("ALTER ROLE farm PASSWORD 'right'")
        .await
        .expect("a password");
    let hba = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(server.data().join("pg_hba.conf"), hba).expect("pg_hba.conf");
    server.reload().await;
    let url = format!("postgresql://farm:wrong@127.0.0.1:{}/farmhand", server.port());
    let (code, said) = refused(Farm::new().on(server).url(url).prepare().await).await;
    assert_eq!(code, Some(6), "{said}");
    assert!(!said.contains("wrong@"), "the password is in the message: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_said_with_its_number() {
    let mut farm = Farm::new().prepare().await;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    farm.agents[0].port = listener.local_addr().expect("an address").port();
    let port = farm.agents[0].port.to_string();
    let (code, said) = refused(farm).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&port), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_schema_says_how_to_get_it() {
    let (code, said) = refused(Farm::new().on(TestDb::empty().await).prepare().await).await;
    assert!(matches!(code, Some(1 | 4)), "{code:?}: {said}");
    assert!(said.contains("farmhand migrate"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_newer_than_the_binary_is_refused() {
    let farm = Farm::new().prepare().await;
    farm.sql
        .batch_execute(
            "INSERT INTO farmhand.schema_version (version, name, checksum)
             SELECT version + 100, 'from_the_future', checksum FROM farmhand.schema_version ORDER BY version DESC LIMIT 1",
        )
        .await
        .expect("a newer schema");
    let (code, said) = refused(farm).await;
    assert!(matches!(code, Some(1 | 4)), "{code:?}: {said}");
    assert!(said.contains("newer"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_that_cannot_be_written_is_named() {
    let mut farm = Farm::new().prepare().await;
    let file = farm.dir().join("file");
    std::fs::write(&file, "not a directory").expect("a file");
    farm.agents[0].state_dir = file.join("state");
    let (code, said) = refused(farm).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("state"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_waited_for() {
    let server = PrivateServer::start(Options::default()).await;
    let jobs = "[job.short]\ncommand = [WITNESS, '50']\n";
    let mut farm = Farm::new().jobs(jobs).on(server).prepare().await;
    farm.database.server().stop();
    farm.agents[0].spawn();
    farm.eventually("it says what it waits for", SOON, async || {
        let said = farm.agents[0].log();
        if said.contains("PostgreSQL") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
    assert!(farm.agents[0].exited().is_none());
    farm.database.server().restart(None);
    farm.agents[0].ready().await;
    farm.sql = farm.database.client().await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
}

/// A state directory on a file system of its own, which is unmounted with this value.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(at: &std::path::Path) -> Self {
        std::fs::create_dir_all(at).expect("a mount point");
        let size = ["-t", "tmpfs", "-o", "size=512k,mode=0711", "tmpfs"];
        let mounted = std::process::Command::new("mount")
            .args(size)
            .arg(at)
            .status()
            .expect("mount runs");
        assert!(
            mounted.success(),
            "this test mounts a small tmpfs: run it as root"
        );
        Self(at.to_path_buf())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(&self.0)
            .status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_state_directory_costs_output_that_is_said_to_be_missing_and_nothing_else() {
    let mut farm = Farm::new()
        .jobs(
            "[job.flood]\ncommand = 'head -c 2000000 /dev/urandom | base64; echo done'\n
             [job.short]\ncommand = [WITNESS, '50', 'say=1']\n",
        )
        .prepare()
        .await;
    let small = Small::mount(&farm.agents[0].state_dir);
    farm.agents[0].start().await;
    let flood = farm.submit("flood").await;
    farm.succeeds(flood).await;
    let dropped: i64 = farm
        .value(&format!(
            "SELECT coalesce(output_dropped, 0) FROM farmhand.run WHERE run_id = {flood}"
        ))
        .await;
    assert!(dropped > 0, "output must be missing");
    farm.event("output_dropped").await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    assert_eq!(farm.output(short, 1).await, "line 1\n");
    // Full to the last byte, whoever wrote it.
    let fill = farm.agents[0].state_dir.join("fill");
    let _ = std::fs::write(&fill, vec![0; 1 << 20]);
    let full = farm.submit("short").await;
    let done = farm.over(full, SOON * 2).await;
    eprintln!("with a full disk: {done:?}");
    assert!(matches!(done.state.as_str(), "succeeded" | "failed"), "{done:?}");
    std::fs::remove_file(&fill).expect("it was there");
    let after = farm.submit("short").await;
    farm.succeeds(after).await;
    drop(farm);
    drop(small);
}
