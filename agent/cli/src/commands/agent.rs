//! `farmhand agent`: flags, environment and file become a configuration, and the agent runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use farmhand_control::{Asker, Refusal};
use farmhand_store::logins::Login;
use farmhand_store::{DbConfig, PasswordIn, StoreError};
use serde::Serialize;

use super::database::credential_file;
use super::{Exit, Failure, Outcome, out, settings};
use farmhand_node::config::{AgentConfig, TlsFiles};
use farmhand_node::notify::PingUrl;
use farmhand_node::{AgentError, Ended, Reload, Served};
use farmhand_warden_client::helper::{self, Files, Purpose};
use farmhand_warden_client::privilege::{self, Wanted};
use farmhand_web::{App, Definitions, Part, Serving, Tls};

/// Threads for what blocks: files, names of hosts.
const BLOCKING_THREADS: usize = 64;

/// How long one without work is kept: a machine that can make no thread now may have been able to when it started.
const KEPT: Duration = Duration::from_secs(u32::MAX as u64);

/// Raw flags. They stay texts here so that every mistake in flags, environment and file comes at once.
#[derive(Args, Clone, Debug, Default, Serialize)]
pub(crate) struct AgentArgs {
    /// The database; no password here: FARMHAND_DATABASE_URL or PGPASSFILE can hold one
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
    /// The same database with a login for users' tables alone, whose owners' triggers run with its rights; no password here
    /// [default: the agent's own login]
    #[arg(long, value_name = "URL")]
    pub rows_database_url: Option<String>,
    /// The same database with an operator's login, with which administrators' tokens change definitions over the API; no
    /// password here [default: the API changes none]
    #[arg(long, value_name = "URL")]
    pub definitions_database_url: Option<String>,
    /// Name of this node [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// Key of the node's lease, unique in the farm [default: the node's name]
    #[arg(long)]
    pub address: Option<String>,
    /// Attempts that may run here at once [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    pub slots: Option<String>,
    /// A label of this node; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Where the API and the metrics listen, or "off" [default: 127.0.0.1:7070]
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<String>,
    /// Serve the API and the page there too: on, or off for metrics and health alone [default: on]
    #[arg(long, value_name = "on|off")]
    pub api: Option<String>,
    /// Ask for a token before /metrics, which names jobs, nodes and pools: on or off [default: off]
    #[arg(long, value_name = "on|off")]
    pub metrics_token: Option<String>,
    /// Serve by TLS with this certificate and its chain (PEM); SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<String>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// Sockets, output and state of this agent [default: /var/lib/farmhand, for others than root below the home]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<String>,
    /// How long the node's lease lives unrenewed, 3s to 1h [default: 2m]
    #[arg(long, value_name = "DURATION")]
    pub lease_ttl: Option<String>,
    /// Listen for hints from the database: on or off (behind a transaction pooler) [default: on]
    #[arg(long, value_name = "on|off")]
    pub notify: Option<String>,
    /// After SIGTERM, how long what runs may take to end by itself [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub stop_timeout: Option<String>,
    /// How long finished runs are kept, in whole days; their output and the events as long, and for 30d at the most [default: 30d]
    #[arg(long, value_name = "DURATION")]
    pub retention: Option<String>,
    /// Send each line of the runs' output on to this service too: none, journald or syslog; or with another socket than its usual
    /// one, syslog:PATH [default: none]
    #[arg(long, value_name = "SERVICE")]
    pub run_log: Option<String>,
    /// A file of root's that says who jobs may run as, or "off" [default: off, the agent's own user alone]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
    /// A file of root's with the keys by which job definitions must be signed to be executed here, or "off" [default:
    /// /etc/farmhand/trusted-keys where that exists]
    #[arg(long, value_name = "FILE")]
    pub trusted_keys: Option<String>,
    /// Started by root: the part that talks to networks becomes this user; a small process stays root. Or "off", for all of
    /// it to stay who started it [default: off]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// A TOML file with the same keys (dashes as underscores, labels as a table)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

pub(super) fn run(args: &AgentArgs, as_json: bool) -> Outcome {
    // Its environment and memory may hold the database's password, and jobs may run as its own user. Not kept by exec:
    // the warden, which knows no secret, sets up namespaces as an ordinary process.
    let hidden = || {
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .map_err(std::io::Error::from)
    };
    hidden()?;
    let env = settings::environment();
    let mut config = settings::load(args, &env)?;
    config.state_dir = std::path::absolute(&config.state_dir)?;
    // With whatever files the URL names, which only root may be able to read.
    let database =
        DbConfig::from_url(&config.database_url, PasswordIn::Allowed)?.with_files_read(helper::text_as_root);
    let rows_database = other_database(config.rows_database_url.as_deref(), Login::Rows)?;
    let definitions = other_database(config.definitions_database_url.as_deref(), Login::Definitions)?;
    if let Some(name) = &config.user {
        let of = |database: &Option<DbConfig>| database.as_ref().map(DbConfig::files).unwrap_or_default();
        let of_databases = [database.files(), of(&rows_database), of(&definitions)];
        let files = own_files(args, &env, &config, of_databases);
        privilege::begin(&wanted(&config), name, files)
            .map_err(|why| Failure::broken(format!("--user {name}: {why}")))?;
    }
    // A change of user may have made it visible again.
    hidden()?;
    let again = args.clone();
    let reload =
        Box::new(move || settings::load(&again, &settings::environment()).map_err(|e| e.to_string()));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(settings::log_filter(&env).map_err(Failure::usage)?)
        .with_ansi(out::color())
        .with_writer(|| out::Log(std::io::stderr()))
        // Its own report of a line that was lost would panic for the same reason.
        .log_internal_errors(false)
        .with_target(false);
    if as_json {
        logs.json().init();
    } else {
        logs.init();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(KEPT)
        .build()?;
    // tokio panics where no thread for blocking work is there and none can be made. One is there from now on.
    let ended = runtime.block_on(async {
        tokio::task::spawn_blocking(|| ()).await.ok();
        compose(config, database, rows_database, definitions, reload).await
    });
    // What still waits for the database waits no longer than this.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match ended? {
        Ended::Stopped | Ended::HandedOver | Ended::Superseded => Ok(Exit::Ok),
    }
}

/// The database with another login than the agent's own, where one is named.
pub(super) fn other_database(url: Option<&str>, login: Login) -> Result<Option<DbConfig>, Failure> {
    let config = url.map(|url| DbConfig::for_login(url, login)).transpose();
    let config = config.map_err(|error| match error {
        StoreError::Config(_) => {
            let example = "postgresql://login@db.example.com/farmhand";
            Failure::from(error).next(format!("fix {}, for example {example}", login.setting()))
        }
        other => other.into(),
    })?;
    Ok(config.map(|config| config.with_files_read(helper::text_as_root)))
}

/// The agent, and on its port the API and the page.
async fn compose(
    config: AgentConfig,
    database: DbConfig,
    rows_database: Option<DbConfig>,
    definitions: Option<DbConfig>,
    reload: Reload,
) -> Result<Ended, AgentError> {
    let listener = match config.listen {
        Some(addr) => Some(
            farmhand_web::bind(addr)
                .await
                .map_err(|e| farmhand_node::setup(format!("--listen {addr}"), e))?,
        ),
        None => None,
    };
    let load = |files: TlsFiles| Tls::load(files.cert, files.key, text_of);
    let tls = config.tls.clone().map(load).transpose();
    let tls = tls
        .map_err(|why| farmhand_node::setup("--tls-cert", why))?
        .map(Arc::new);
    let (api, metrics_token) = (config.api, config.metrics_token);
    let (served, proxy) = (tls.clone(), config.proxy.clone());
    let application_name = format!("farmhand definitions {}", config.address);
    let definitions = definitions.map(|database| database.with_application_name(&application_name));
    let trusted_keys = config.trusted_keys.clone();
    let serve = Box::new(move |with: Served| {
        let Some(listener) = listener else { return };
        let definitions = definitions.map(|database| Definitions::new(database, trusted_keys, &with.events));
        let app = App::new(
            with.events,
            with.db,
            with.health,
            &with.address,
            served.is_some(),
            proxy,
            definitions,
        );
        let serving = Serving {
            api,
            metrics_token,
            tls: served,
        };
        tokio::spawn(farmhand_web::serve(listener, app, serving));
    });
    // Boxed: a future of its own, whose size nothing else has to know.
    Box::pin(farmhand_node::run(
        config,
        database,
        rows_database,
        with_certificate(reload, tls),
        serve,
    ))
    .await
}

fn text_of(file: &Path, part: Part) -> std::io::Result<String> {
    let purpose = match part {
        Part::Certificate => Purpose::Certificate,
        Part::Key => Purpose::CertificateKey,
    };
    helper::text_of(file, purpose)
}

/// SIGHUP reads the certificate again too.
fn with_certificate(reload: Reload, tls: Option<Arc<Tls>>) -> Reload {
    Box::new(move || {
        let config = reload()?;
        tls.as_ref().map_or(Ok(()), |tls| tls.reload())?;
        Ok(config)
    })
}

/// What an agent without rights is held to.
fn wanted(config: &AgentConfig) -> Wanted {
    Wanted {
        state_dir: config.state_dir.clone(),
        policy: config.policy.clone(),
        trusted_keys: config.trusted_keys.clone(),
        secrets_dir: config.outside.secrets_dir.clone(),
    }
}

/// What it goes on reading when its user may not: its own settings, and what they name for itself.
fn own_files(
    args: &AgentArgs,
    env: &BTreeMap<String, String>,
    config: &AgentConfig,
    of_databases: [[Option<PathBuf>; 4]; 3],
) -> Files {
    let smtp = config.outside.smtp.as_ref();
    let ping = config.outside.ping.as_ref();
    let files = [
        (Purpose::Settings, settings::file(args, env)),
        (Purpose::Database, credential_file(env)),
        (
            Purpose::Certificate,
            config.tls.as_ref().map(|tls| tls.cert.clone()),
        ),
        (
            Purpose::CertificateKey,
            config.tls.as_ref().map(|tls| tls.key.clone()),
        ),
        (
            Purpose::MailPassword,
            smtp.and_then(|smtp| smtp.password_file.clone()),
        ),
        (
            Purpose::Ping,
            ping.and_then(|ping| match &ping.to {
                PingUrl::File(file) => Some(file.clone()),
                PingUrl::Given(_) => None,
            }),
        ),
    ];
    let purposes = [
        [
            Purpose::DatabasePassword,
            Purpose::DatabaseRoot,
            Purpose::DatabaseCertificate,
            Purpose::DatabaseKey,
        ],
        [
            Purpose::RowsDatabasePassword,
            Purpose::RowsDatabaseRoot,
            Purpose::RowsDatabaseCertificate,
            Purpose::RowsDatabaseKey,
        ],
        [
            Purpose::DefinitionsDatabasePassword,
            Purpose::DefinitionsDatabaseRoot,
            Purpose::DefinitionsDatabaseCertificate,
            Purpose::DefinitionsDatabaseKey,
        ],
    ];
    let of_databases = purposes
        .into_iter()
        .flatten()
        .zip(of_databases.into_iter().flatten());
    (files.into_iter().chain(of_databases))
        .filter_map(|(of, file)| Some((of, file?)))
        .collect()
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Store(e) => Refusal::of(e, Asker::Agent).into(),
            AgentError::AddressTaken { .. }
            | AgentError::StateDirTaken { .. }
            | AgentError::Superseded { .. } => Failure::refused(error.to_string()),
            AgentError::Setup { .. } => Failure::broken(error.to_string()),
        }
    }
}
