//! Flows beside other ways to run the same graphs:
//!
//!     cargo run --release -p farmhand-tests --bin bench-flow
//!
//! Every runner calls the same scripts. CPU is that of the runner and of all it started. `--smoke` runs small
//! graphs once; `--only WORD` those whose name contains it. `docs/guides/flows.md` has results and the method.

mod graphs;
mod measure;
mod memory;
mod runners;
mod wake;

use std::time::Duration;

use graphs::{Body, Graph};
use measure::Run;
use runners::{Place, Runner};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let smoke = args.iter().any(|a| a == "--smoke");
    let only = args
        .iter()
        .position(|a| a == "--only")
        .and_then(|i| args.get(i + 1));
    let wanted = |name: &str| only.is_none_or(|word| name.contains(word.as_str()));
    println!(
        "farmhand: {}; {} CPUs; Linux {}",
        farmhand_tests::bin::farmhand().display(),
        std::thread::available_parallelism().map_or(0, usize::from),
        std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
    );
    for runner in Runner::ALL {
        if let Some(missing) = runner.missing() {
            println!("left out: {missing}");
        }
    }
    let (repeats, scale) = if smoke { (1, 50) } else { (5, 1) };
    let graphs = [
        Graph::random("random DAG, no-op", 1_000 / scale, Body::Nothing),
        Graph::fan("fan, no-op", 1_000 / scale, Body::Nothing),
        Graph::chain("chain, no-op", 500 / scale, Body::Nothing),
        Graph::freebsd("FreeBSD, no-op", Body::Nothing),
        Graph::freebsd("FreeBSD, library of 2,000 lines", Body::Library),
        Graph::freebsd("FreeBSD, sleep 0.05", Body::Sleep(Duration::from_millis(50))),
    ];
    for graph in graphs.iter().filter(|g| wanted(&g.name)) {
        table(graph, repeats);
    }
    if wanted("memory") {
        memory::table(10_000 / scale);
    }
    if wanted("wake") {
        wake::table(if smoke { 20 } else { 2_000 });
    }
}

fn table(graph: &Graph, repeats: usize) {
    let place = Place::new(graph);
    println!("\n{}: {} tasks", graph.name, graph.names.len());
    println!(
        "{:<28} {:>10} {:>12} {:>12}  remarks",
        "runner", "wall ms", "CPU ms", "CPU µs/task"
    );
    // One after the other in each round, so that what else the machine does falls on all alike.
    let mut results: Vec<(Runner, Vec<Run>)> = Runner::ALL.map(|r| (r, Vec::new())).into();
    for _ in 0..repeats {
        for (runner, runs) in &mut results {
            if runner.missing().is_none() {
                runs.extend(runner.run(&place, graph));
            }
        }
    }
    for (runner, runs) in results.iter().filter(|(_, runs)| !runs.is_empty()) {
        let cpu = median(runs, |r| r.cpu.as_secs_f64());
        let over = runs.iter().all(|r| r.over_critical_path.is_some());
        let over = over.then(|| median(runs, |r| r.over_critical_path.unwrap_or_default()));
        println!(
            "{:<28} {:>10.1} {:>12.1} {:>12.0}  {}",
            runner.name(),
            median(runs, |r| r.wall.as_secs_f64()) * 1e3,
            cpu * 1e3,
            cpu * 1e6 / graph.names.len() as f64,
            over.map_or_else(String::new, |o| format!(
                "{:+.2} % over its critical path",
                o * 100.0
            )),
        );
    }
}

/// Each column has a median of its own.
fn median(runs: &[Run], figure: impl Fn(&Run) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
