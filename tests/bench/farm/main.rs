//! A farm of many agents on one PostgreSQL: the store's own functions, an executor that does nothing, one connection
//! for each agent, all in one process:
//!
//!     cargo run --release -p farmhand-bench --bin bench-farm -- [AGENTS [JOBS [SECONDS [ROUNDS [SLOWER]]]]]
//!
//! At rest, with jobs that fire once a minute, at several sizes of the farm, directly and through PgBouncer, with prepared
//! statements and without, in turn; a restart of the database with everybody reconnecting. More than 2,000 agents
//! share twenty connections, and poll and renew so many times SLOWER than agents do. `docs/lab/performance.md` says more.

mod agents;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use agents::{Counts, Fleet, Way};
use farmhand_tests::bench::queue::make_jobs;
use farmhand_tests::bench::{argument, cpu_time_if_alive, durable, figure, times};
use farmhand_tests::outside::Pooler;
use farmhand_tests::pg::PrivateServer;
use farmhand_tests::processes;

/// PostgreSQL keeps a statement's plan after so many executions, and some.
const EXECUTED_FIRST: usize = 8;
const WARM: Duration = Duration::from_secs(60);
/// More connections than these this machine does not carry.
const CONNECTED: usize = 2_000;
const SHARED: usize = 20;

/// A thousand connections, and a thousand more of the pooler, which inherits it.
fn many_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both only read or write plain data of our own.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// CPU of the server's processes that live; connections that end meanwhile are few.
fn server_cpu(postmaster: i32) -> Duration {
    let all = processes::all().into_iter().filter(|p| p.state != 'Z');
    let own = all.filter(|p| p.pid == postmaster || p.parent == postmaster);
    own.filter_map(|p| cpu_time_if_alive(p.pid)).sum()
}

#[tokio::main]
async fn main() {
    let (agents, jobs, seconds) = (argument(1, 100), argument(2, 1_000), argument(3, 20));
    let window = Duration::from_secs(seconds as u64);
    many_files();
    let connections = agents.min(CONNECTED) + 50;
    let most = connections.to_string();
    let settings = durable(&[("max_connections", &most), ("shared_buffers", "512MB")]);
    let mut server = PrivateServer::start(settings).await;
    make_jobs(&server.db().await, jobs).await;
    let direct = Way {
        how: "directly",
        config: server.config(),
        shared: false,
        slower: 1,
    };
    if agents > CONNECTED {
        let few = Way {
            how: "over twenty connections",
            config: server.config().with_max_pool(SHARED).with_listen(false),
            shared: true,
            slower: u32::try_from(argument(5, 10)).expect("a factor"),
        };
        for size in [agents / 10, agents] {
            measure(&server, &few, size, jobs, window).await;
        }
        return;
    }
    for size in [agents / 100, agents / 10].into_iter().filter(|size| *size >= 5) {
        measure(&server, &direct, size, jobs, window).await;
    }
    let pooler = |settings: &[_]| {
        let few = [&[("default_pool_size", "20")], settings].concat();
        let pooler = Pooler::start(([127, 0, 0, 1], server.port()).into(), &few);
        let config = farmhand_tests::pg::config(&pooler.url("farmhand")).with_listen(false);
        (pooler, config)
    };
    let through = |how, config| Way {
        how,
        config,
        ..direct.clone()
    };
    let (_usual, usual) = pooler(&[]);
    let mut ways = vec![direct.clone(), through("through PgBouncer", usual)];
    let forgets = Pooler::keeps_statements().then(|| pooler(&[("max_prepared_statements", "0")]));
    if let Some((_, config)) = &forgets {
        ways.push(through("through PgBouncer, nothing prepared", config.clone()));
    }
    for _ in 0..argument(4, 1) {
        for way in &ways {
            measure(&server, way, agents, jobs, window).await;
        }
    }
    restart(&mut server, &direct, agents).await;
}

/// At rest, then with every job firing once a minute.
async fn measure(server: &PrivateServer, way: &Way, size: usize, jobs: usize, window: Duration) {
    let counts = Arc::new(Counts::default());
    let fleet = Fleet::open(way, size, &counts).await;
    // As in a farm that has been there for a while: thousands of sessions at once leave a row to be cleared away each.
    let sql = server.client().await;
    sql.batch_execute("VACUUM ANALYZE farmhand.node")
        .await
        .expect("a vacuum");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (said, cpu, began) = (counts.statements(), server_cpu(server.pid()), Instant::now());
    tokio::time::sleep(window / 2).await;
    let seconds = began.elapsed().as_secs_f64();
    let rest = (server_cpu(server.pid()) - cpu).as_secs_f64() / seconds;
    let statements = (counts.statements() - said) as f64 / seconds / size as f64;
    let slower = match way.slower {
        1 => String::new(),
        times => format!(", {times} times slower"),
    };
    let name = |what: &str| format!("{size} agents {}{slower}: {what}", way.how);
    figure(
        "farm",
        &name("statements a second and agent, at rest"),
        statements,
        "1/s",
    );
    figure("farm", &name("server CPU at rest"), rest * 100.0, "%");

    // A connection plans its first statements of each kind anew; an agent of a large farm takes long to have said them.
    let warm = Duration::from_secs((size * EXECUTED_FIRST * 60 / jobs) as u64).min(WARM);
    let minutes = i64::try_from((warm + window).as_secs() / 60 + 2).expect("minutes");
    fleet.schedule(server, jobs, minutes).await;
    tokio::time::sleep(warm).await;
    let cold = counts.take_late();
    if !cold.is_empty() {
        times("farm", &name("lateness on new connections"), cold);
    }
    counts.notes.store(0, Ordering::Relaxed);
    let (cpu, began) = (server_cpu(server.pid()), Instant::now());
    tokio::time::sleep(window).await;
    let busy = (server_cpu(server.pid()) - cpu).as_secs_f64();
    let seconds = began.elapsed().as_secs_f64();
    let late = counts.take_late();
    assert!(!late.is_empty(), "nothing ran");
    let runs = late.len() as f64;
    let each = (busy - rest * seconds) / runs * 1e3;
    figure(
        "farm",
        &name("due runs a second"),
        late.len() as f64 / seconds,
        "1/s",
    );
    figure("farm", &name("server CPU of one due run"), each, "ms");
    times("farm", &name("lateness"), late);
    let notes = counts.notes.load(Ordering::Relaxed) as f64 / runs;
    figure("farm", &name("notifications received for each run"), notes, "");
    let failed = counts.errors.load(Ordering::Relaxed) as f64;
    figure("farm", &name("statements that failed"), failed, "");
    fleet.close().await;
}

/// Everybody has renewed again so long after the server is back.
async fn restart(server: &mut PrivateServer, direct: &Way, size: usize) {
    let counts = Arc::new(Counts::default());
    let fleet = Fleet::open(direct, size, &counts).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.stop();
    server.restart(None);
    let began = Instant::now();
    let back = fleet.all_renewed(Duration::from_secs(60)).await;
    assert!(back, "every session goes on within a minute");
    let name = format!("{size} agents: from the restart until all have renewed");
    figure("farm", &name, began.elapsed().as_secs_f64(), "s");
    fleet.close().await;
}
