//! Behind PgBouncer in transaction mode.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::pg::TestDb;

/// A pooler for one database, ended with this value.
struct Pooler {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Pooler {
    fn start(db: &TestDb) -> Self {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .into_iter()
            .find(|p| Path::new(p).exists());
        let program = program.expect("this test needs PgBouncer: apt-get install pgbouncer");
        let dir = tempfile::tempdir_in("/tmp").expect("a temporary directory");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let port = farmhand_tests::ports::free_port();
        let database = db.tcp_url().rsplit('/').next().expect("a name").to_owned();
        let ini = format!(
            "[databases]\n{database} = host=127.0.0.1 port={} dbname={database} user=farm\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 100\n",
            db.port()
        );
        let file = dir.path().join("pgbouncer.ini");
        std::fs::write(&file, ini).expect("pgbouncer.ini");
        let mut command = Command::new(program);
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: plain system calls between fork and exec. It refuses to run as root.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
            if libc::geteuid() == 0 {
                command.uid(65534).gid(65534);
            }
        }
        let child = command.spawn().expect("pgbouncer starts");
        Self {
            child,
            port,
            _dir: dir,
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_farm_works_behind_a_transaction_pooler() {
    let db = TestDb::new().await;
    let pooler = Pooler::start(&db);
    let url = db
        .tcp_url()
        .replace(&format!(":{}/", db.port()), &format!(":{}/", pooler.port));
    let mut farm = Farm::new()
        .agents(2)
        .on(db)
        .url(&url)
        .arguments(&["--notify", "off"])
        .jobs(
            "[job.long]\ncommand = [WITNESS, '2500']\n
             [job.flaky]\nretry = { max = 1, base = '100ms' }\ncommand = [WITNESS, '50', 'exit=1']\n
             [job.tick]\nschedule = '* * * * * *'\ncommand = [WITNESS, '50', 'say=2']\n",
        )
        .start()
        .await;
    let tick = farm.first_run("tick").await;
    farm.succeeds(tick.run_id).await;
    assert_eq!(farm.output(tick.run_id, 1).await, "line 1\nline 2\n");
    let flaky = farm.submit("flaky").await;
    assert_eq!(farm.over(flaky, SOON).await.attempt, 2);
    let long = farm.submit("long").await;
    let home = farm.lives(long, 1).await.running_at.expect("a node");
    farm.agent(&home).kill_with_wardens();
    assert_eq!(farm.succeeds(long).await.attempt, 2);
    farm.check().await;
    let mut doctor = farm.command(&["doctor", "--json", "--state-dir"]);
    let told = doctor.arg(farm.dir()).env("FARMHAND_DATABASE_URL", &url).output();
    let told: serde_json::Value = serde_json::from_slice(&told.expect("doctor").stdout).expect("JSON");
    let mut checks = told["checks"].as_array().expect("a list").iter();
    let told_of = checks.find(|c| c["check"] == "pooler").expect("a word about it");
    let (found, fix) = (told_of["found"].to_string(), told_of["fix"].to_string());
    assert!(
        found.contains("transaction mode") && fix.contains("--notify off"),
        "{told_of}"
    );
    drop(farm);
    drop(pooler);
}
