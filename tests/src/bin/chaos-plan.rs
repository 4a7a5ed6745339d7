//! Faults by the thousand, from a seed: `tests/chaos/run --help`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use farmhand_tests::chaos::plan::{Plan, Shape};
use farmhand_tests::chaos::{report, run};

/// Runs a farm in network namespaces, does to it what a seed says, and judges what the jobs wrote down. Needs root.
#[derive(Parser)]
#[command(name = "tests/chaos/run")]
struct Arguments {
    /// What happens follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    let arguments = Arguments::parse();
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
        .unwrap_or_else(|| PathBuf::from(format!("target/chaos/{}", plan.seed)));
    std::fs::create_dir_all(&out).expect("a directory for the report");
    std::fs::write(out.join("plan.json"), plan.to_json()).expect("the plan's file");
    let options = run::Options {
        tolerance: Duration::from_secs_f64(arguments.tolerance),
        samples: arguments.soak.then(|| out.join("samples.csv")),
        talk: !arguments.quiet,
    };
    let outcome = run::run(&plan, &options);
    report::write(&out, &plan, &outcome).expect("the report");
    print!("{}", report::text(&out, &plan, &outcome));
    if outcome.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
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
