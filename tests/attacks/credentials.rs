//! Credentials are sought wherever another process, a job or a reader of logs and tables could look: none is found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON};
use farmhand_tests::pg::{Options, PrivateServer};
use farmhand_tests::processes;

const PASSWORD: &str = "millet-4713-of-the-database";
const HOOK: &str = "millet-4713-of-the-hook";

/// What every credential of the first test begins with, and none of another: all users can read the arguments of what runs
/// beside it, and an agent's environment until the agent closes it.
const MARK: &str = "millet-4713";

/// The agent's of the second test.
const OTHER: &str = "spelt-4714-of-the-database";

fn keep(path: &Path, text: &str) -> String {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode");
    path.display().to_string()
}

/// A server that asks the agents' login `keeper` for its password.
async fn server(password: &str) -> PrivateServer {
    let server = PrivateServer::start(Options::default()).await;
    let hba =
        "local all all trust\nhost all keeper 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    fs::write(server.data().join("pg_hba.conf"), hba).expect("pg_hba.conf");
    let made = format!("CREATE ROLE keeper LOGIN PASSWORD '{password}' IN ROLE farmhand_agent");
    server.admin().await.exec(&made).await;
    server.reload().await;
    server
}

const JOBS: &str = "
[notify.ops]
webhook_file = 'ops.url'
[job.environment]
user = 'nobody'
command = 'env; cat /proc/self/environ | tr \"\\0\" \"\\n\"; echo seen'
notify = ['ops']
[job.search]
user = 'nobody'
command = 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr \"\\0\" \"\\n\" | grep -c millet-471[3]; true'
[job.fails]
user = 'nobody'
command = 'exit 3'
notify = ['ops']
";

/// Four agents, each with the password from another place.
async fn farm() -> (Farm, tempfile::TempDir) {
    let (server, secrets) = (server(PASSWORD).await, tempfile::tempdir().expect("a directory"));
    let port = server.port();
    // Nobody listens there: the failure is logged and stored.
    keep(
        &secrets.path().join("ops.url"),
        &format!("http://127.0.0.1:9/{HOOK}\n"),
    );
    let mut farm = Farm::new()
        .on(server)
        .agents(4)
        .ttl(Duration::from_secs(10))
        .policy("users = ['nobody']\n")
        .env("FARMHAND_LOG", "trace")
        .env("FARMHAND_SECRETS_DIR", secrets.path().display().to_string())
        .prepare()
        .await;
    let plain = format!("postgresql://keeper@127.0.0.1:{port}/farmhand");
    let passfile = keep(
        &secrets.path().join("pgpass"),
        &format!("127.0.0.1:{port}:farmhand:keeper:{PASSWORD}\n"),
    );
    let alone = keep(&secrets.path().join("password"), PASSWORD);
    let given = [
        vec![(
            "FARMHAND_DATABASE_URL",
            plain.replace("keeper@", &format!("keeper:{PASSWORD}@")),
        )],
        vec![
            ("FARMHAND_DATABASE_URL", plain.clone()),
            ("PGPASSWORD", PASSWORD.to_owned()),
        ],
        vec![("FARMHAND_DATABASE_URL", plain.clone()), ("PGPASSFILE", passfile)],
        vec![
            ("FARMHAND_DATABASE_URL", plain),
            ("FARMHAND_DATABASE_PASSWORD_FILE", alone),
        ],
    ];
    for (agent, given) in farm.agents.iter_mut().zip(given) {
        let owned = given.into_iter().map(|(name, value)| (name.to_owned(), value));
        agent.env.extend(owned);
    }
    farm.start_agents().await;
    farm.apply(JOBS);
    (farm, secrets)
}

/// Every file below a directory that holds one of these.
fn files_with(dir: &Path, sought: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_with(&path, sought)),
            Ok(kind) if kind.is_file() => {
                let text = fs::read(&path).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                found.extend(
                    sought
                        .iter()
                        .filter(|s| text.contains(**s))
                        .map(|s| format!("{}: {s}", path.display())),
                );
            }
            _ => {}
        }
    }
    found
}

/// Every table with a row whose text holds one of these.
async fn tables_with(farm: &Farm, sought: &[&str]) -> Vec<String> {
    let tables = "SELECT c.oid::regclass::text FROM pg_class c
                  WHERE c.relnamespace = 'farmhand'::regnamespace AND c.relkind = 'r'";
    let mut found = Vec::new();
    for table in farm.sql.query(tables, &[]).await.expect("the tables") {
        let table: String = table.get(0);
        // Bytes are shown as they are, as far as they are text.
        let rows = format!("SELECT count(*) FROM {table} t WHERE encode(convert_to(t::text, 'UTF8'), 'escape') LIKE '%' || $1 || '%'
                            OR t::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%'");
        for one in sought {
            let count: i64 = farm.sql.query_one(&rows, &[one]).await.expect("a count").get(0);
            if count > 0 {
                found.push(format!("{table}: {one} in {count} rows"));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credential_is_in_a_command_line_a_log_a_table_a_page_or_a_jobs_environment() {
    let (farm, _secrets) = farm().await;
    let token = farm
        .ok(&["token", "create", "seeker", "--role", "admin", "--expires", "1h"])
        .trim()
        .to_owned();
    let bearer = format!("Authorization: Bearer {token}");
    for agent in &farm.agents {
        let url = format!("http://127.0.0.1:{}/api/v1/me", agent.port);
        let asked = Command::new("curl")
            .args(["-sS", "--fail", "-H", &bearer, &url])
            .output()
            .expect("curl: apt-get install curl");
        assert!(asked.status.success(), "{asked:?}");
        let wrong = format!("http://127.0.0.1:{}/api/v1/jobs?token={token}", agent.port);
        let asked = Command::new("curl").args(["-sS", &wrong]).output().expect("curl");
        assert!(
            String::from_utf8_lossy(&asked.stdout).contains("401"),
            "{asked:?}"
        );
    }
    for _ in 0..8 {
        let run = farm.submit("environment").await;
        farm.succeeds(run).await;
        let attempt = farm.run(run).await.attempt;
        let said = farm.output(run, attempt).await;
        assert!(
            said.ends_with("seen\n") && said.contains("FARMHAND_RUN="),
            "{said}"
        );
        for name in ["DATABASE_URL", "PGPASS", "PASSWORD", MARK] {
            assert!(!said.contains(name), "{name}: {said}");
        }
    }
    let search = farm.submit("search").await;
    farm.succeeds(search).await;
    assert_eq!(
        farm.output(search, 1).await,
        "0\n",
        "a job of another user finds nothing"
    );
    let failed = farm.submit("fails").await;
    farm.over(failed, SOON).await;
    farm.becomes_some(SOON, "SELECT count(*) FROM farmhand.notification WHERE tries > 0")
        .await;

    let sought = [MARK, token.as_str()];
    for process in farm.processes() {
        assert!(!process.command.contains(MARK), "{process:?}");
        // What was given in the environment is there, for the same user and root alone; wardens and reapers have none.
        let ours = process.command.contains(" warden ") || process.command.contains(" reaper ");
        assert!(
            !ours || !process.environment.join(" ").contains(MARK),
            "{process:?}"
        );
    }
    // The logs of the agents lie beside their state directories, with the warden's logs and all output.
    assert!(
        farm.agents
            .iter()
            .all(|a| a.log().contains("TRACE") || a.log().contains("DEBUG"))
    );
    assert_eq!(files_with(farm.dir(), &sought), Vec::<String>::new());
    assert_eq!(tables_with(&farm, &sought).await, Vec::<String>::new());
    for agent in &farm.agents {
        for path in ["/metrics", "/healthz", "/readyz", "/", "/login"] {
            let (_, text) = agent.get(path).await.expect("a page");
            assert!(!text.contains(MARK), "{path}");
        }
    }
    let url = farm.agents[0]
        .env
        .iter()
        .rfind(|(name, _)| name == "FARMHAND_DATABASE_URL");
    let url = &url.expect("the URL").1;
    assert!(url.contains(MARK));
    for command in [
        ["doctor", "--json"],
        ["status", "--json"],
        ["events", "--json"],
        ["node", "ls"],
    ] {
        let ran = farm
            .command(&command)
            .env("FARMHAND_DATABASE_URL", url)
            .output()
            .expect("it runs");
        let said = [ran.stdout, ran.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(MARK), "{command:?}");
    }
    let wrong = url.replace("-of-the-database", "-that-is-wrong");
    let ran = farm
        .command(&["status"])
        .env("FARMHAND_DATABASE_URL", wrong)
        .output()
        .expect("it runs");
    assert_eq!(ran.status.code(), Some(6));
    assert!(!String::from_utf8_lossy(&ran.stderr).contains(MARK), "{ran:?}");
}

/// Ended before the farm asks what is left.
struct Ordinary(Child);

impl Drop for Ordinary {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a process of this user reads there, or why not.
fn as_nobody(script: &str) -> (bool, String) {
    let ran = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-c",
            script,
        ])
        .output()
        .expect("setpriv: apt-get install util-linux");
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_environment_and_memory_are_closed_to_other_processes_of_its_own_user() {
    let mut farm = Farm::new().on(server(OTHER).await).ttl(CALM).prepare().await;
    let port = farm.database.port();
    let binary = farm.dir().join("farmhand");
    fs::copy(farmhand_tests::bin::farmhand(), &binary).expect("a copy that the user may read");
    fs::set_permissions(farm.dir(), fs::Permissions::from_mode(0o755)).expect("a way in");
    let state = farm.agents[0].state_dir.clone();
    fs::create_dir_all(&state).expect("a state directory");
    std::os::unix::fs::chown(&state, Some(65534), Some(65534)).expect("its owner");
    farm.agents[0].env.extend([
        (
            "FARMHAND_DATABASE_URL".to_owned(),
            format!("postgresql://keeper@127.0.0.1:{port}/farmhand"),
        ),
        ("PGPASSWORD".to_owned(), OTHER.to_owned()),
    ]);
    let usual = farm.agents[0].command();
    let mut command = Command::new(&binary);
    command.args(usual.get_args()).uid(65534).gid(65534);
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let agent = Ordinary(command.spawn().expect("the agent starts"));
    farm.agents[0].ready().await;
    farm.apply("[job.seek]\ncommand = 'cat /proc/$(cat @DIR@/pid)/environ'\n");
    let pid = agent.0.id();
    keep(&farm.dir().join("pid"), &pid.to_string());
    fs::set_permissions(farm.dir().join("pid"), fs::Permissions::from_mode(0o644)).expect("its mode");

    let (can, said) = as_nobody(&format!("tr '\\0' '\\n' < /proc/{pid}/cmdline"));
    assert!(can && said.contains("agent"), "the same user: {said}");
    for file in ["environ", "mem", "maps", "auxv"] {
        let (can, said) = as_nobody(&format!("head -c 64 /proc/{pid}/{file}"));
        assert!(!can && said.contains("Permission denied"), "{file}: {said}");
    }
    let (can, said) = as_nobody(&format!("ls /proc/{pid}/fd/"));
    assert!(!can, "its connections: {said}");
    // Nor from within a job, which here is the agent's own user.
    let run = farm.submit("seek").await;
    let done = farm.over(run, SOON).await;
    assert_eq!(done.state, "failed");
    let said = farm.output(run, done.attempt).await;
    assert!(
        said.contains("Permission denied") && !said.contains(OTHER),
        "{said}"
    );
    // Reaper and warden are ordinary processes, and have nothing to be read.
    for process in farm.agents[0]
        .wardens()
        .into_iter()
        .chain(farm.agents[0].reapers())
    {
        let open = processes::one(process.pid).expect("a warden").environment;
        assert!(!open.join(" ").contains(OTHER), "{open:?}");
    }
    drop(agent);
}
