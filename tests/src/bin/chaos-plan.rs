//! Faults by the thousand, from a seed: `tests/chaos/run --help`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use farmhand_tests::chaos::plan::{Plan, Shape};
use farmhand_tests::chaos::sittings::{self, Sitting};
use farmhand_tests::chaos::{report, run};

/// Runs a farm in network namespaces, does to it what a seed says, and judges what the jobs wrote down. Needs root.
#[derive(Parser)]
#[command(name = "tests/chaos/run")]
struct Arguments {
    /// What happens follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Takes the seed after all those of `tests/chaos/sittings.toml`, and adds a row for this sitting there and to its page. A sitting that
    /// SIGINT or SIGTERM ends is judged up to then; one that is killed does not count.
    #[arg(long, conflicts_with_all = ["seed", "plan", "print_plan"])]
    campaign: bool,
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=10))]
    agents: u8,
    #[arg(long, default_value_t = 3_000)]
    faults_per_hour: u64,
    /// Seconds of the agents' leases, in turn; a restart may change them.
    #[arg(long, value_delimiter = ',', default_value = "3,10,30")]
    leases: Vec<u64>,
    /// Nothing but faults of this kind, as a plan in JSON calls it: rack, frozen, lease, ...
    #[arg(long)]
    only: Option<String>,
    /// PgBouncer in transaction mode between agents and servers.
    #[arg(long)]
    pgbouncer: bool,
    /// No standby.
    #[arg(long)]
    no_failovers: bool,
    /// Sessions that only listen, when the plan opens some.
    #[arg(long, default_value_t = 1_000)]
    listeners: usize,
    /// Of faults that hit processes, how many in a hundred open a declared window.
    #[arg(long, default_value_t = 3)]
    declared: u64,
    /// Three servers that Patroni keeps, and so many failovers and switchovers instead of other faults.
    #[arg(long, default_value_t = 0, value_name = "FAILOVERS")]
    patroni: u64,
    /// A plan to follow instead of the seed's.
    #[arg(long)]
    plan: Option<PathBuf>,
    /// Print the plan and do nothing.
    #[arg(long)]
    print_plan: bool,
    /// Seconds added to the bounds on lateness, for a machine that is busy with other things.
    #[arg(long, default_value_t = 0.0)]
    tolerance: f64,
    /// Hours at a fifth of the faults, with samples of what must stay flat.
    #[arg(long)]
    soak: bool,
    /// Where plan, result and report go; default: target/chaos/SEED.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Do not say what happens.
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if arguments.campaign {
        let text =
            std::fs::read_to_string(sittings::TABLE).expect("this is called at the root of a checkout");
        arguments.seed = sittings::next_seed(&sittings::parse(&text).unwrap_or_else(|e| panic!("{e}")));
    }
    let plan = match &arguments.plan {
        Some(path) => {
            let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            Plan::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        }
        None => Plan::new(arguments.seed, shape(&arguments)),
    };
    if arguments.print_plan {
        println!("{}", plan.to_json());
        return ExitCode::SUCCESS;
    }
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("target/chaos/{}", plan.seed)));
    std::fs::create_dir_all(&out).expect("a directory for the report");
    std::fs::write(out.join("plan.json"), plan.to_json()).expect("the plan's file");
    let options = run::Options {
        tolerance: Duration::from_secs_f64(arguments.tolerance),
        samples: arguments.soak.then(|| out.join("samples.csv")),
        talk: !arguments.quiet,
        stop: Some(&STOP),
    };
    stop_at_a_signal();
    let sitting = arguments.campaign.then(|| begin(&plan, &arguments));
    let outcome = run::run(&plan, &options);
    report::write(&out, &plan, &outcome).expect("the report");
    print!("{}", report::text(&out, &plan, &outcome));
    if let Some(begun) = sitting {
        let judged = (begun.clone()).judged(&outcome, STOP.load(Ordering::Relaxed));
        change(|text| sittings::replaced(text, &begun, &judged));
    }
    if outcome.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// The first SIGINT or SIGTERM ends the faults, and what there was is judged; the second one ends the program.
fn stop_at_a_signal() {
    // SAFETY: a handler that stores to an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stop as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Adds the row of a sitting that begins, so that one that is killed is seen.
fn begin(plan: &Plan, arguments: &Arguments) -> Sitting {
    let kind = match (arguments.soak, arguments.patroni) {
        (true, _) => "soak",
        (_, 0) => "plan",
        _ => "patroni",
    };
    let changed = git(&["status", "--porcelain", "--", "agent", "common", "tests/src"]);
    let mut commit = git(&["rev-parse", "--short=12", "HEAD"]);
    commit.push_str(if changed.is_empty() { "" } else { " and changes" });
    let today = jiff::Timestamp::now().to_string();
    let sitting = Sitting::begin(plan, kind, &commit, &today[..10]);
    change(|text| Ok(sittings::with(text, &sitting)));
    sitting
}

fn git(arguments: &[&str]) -> String {
    let out = Command::new("git").args(arguments).output().expect("git runs");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn change(table: impl Fn(&str) -> Result<String, String>) {
    sittings::change(Path::new("."), table).unwrap_or_else(|e| panic!("{e}"));
}

fn shape(arguments: &Arguments) -> Shape {
    let slower = if arguments.soak { 5 } else { 1 };
    Shape {
        agents: usize::from(arguments.agents),
        // Those of Patroni take the time that they take.
        lasts_ms: if arguments.patroni > 0 {
            0
        } else {
            (arguments.minutes * 60_000.0) as u64
        },
        faults_per_hour: arguments.faults_per_hour / slower,
        pgbouncer: arguments.pgbouncer,
        failovers: !arguments.no_failovers,
        listeners: arguments.listeners,
        declared_percent: arguments.declared,
        spared: arguments.soak.then_some(0),
        leases: arguments.leases.clone(),
        only: arguments.only.clone(),
        patroni: arguments.patroni,
    }
}
