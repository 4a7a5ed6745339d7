//! Figures of the other programs into one page with plots:
//!
//! ```text
//! bench-report FIGURES.jsonl DIR      DIR/report.md and DIR/plots/*.svg
//! ```
//!
//! Each figure beside its aim (`aims.rs`), where it has one. Each line is `{"bench", "name", "value", "unit"}`. `tests/bench/run`
//! runs everything and then this.

mod aims;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

#[derive(Deserialize)]
struct Figure {
    bench: String,
    name: String,
    value: f64,
    unit: String,
}

const BAR: f64 = 420.0;
const LINE: usize = 22;

/// Horizontal bars of the figures that share a unit, as one SVG.
fn plot(title: &str, unit: &str, figures: &[&Figure]) -> String {
    let most = figures.iter().map(|f| f.value).fold(f64::MIN_POSITIVE, f64::max);
    let height = 30 + LINE * figures.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\"><text x=\"4\" y=\"16\" font-weight=\"bold\">{} ({})</text>",
        escaped(title),
        escaped(unit)
    );
    for (i, figure) in figures.iter().enumerate() {
        let y = 30 + LINE * i;
        let width = (figure.value / most * BAR).max(1.0);
        let color = if figure.name.starts_with("farmhand") {
            "#2a7"
        } else {
            "#89a"
        };
        let _ = write!(
            svg,
            "<text x=\"350\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"358\" y=\"{}\" width=\"{width:.0}\" \
             height=\"15\" fill=\"{color}\"/><text x=\"{:.0}\" y=\"{}\">{}</text>",
            y + 12,
            escaped(&figure.name),
            y,
            364.0 + width,
            y + 12,
            shown(figure.value)
        );
    }
    svg + "</svg>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn shown(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// What the figures were measured on.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':'))
            .map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let postgres = Command::new("psql").arg("--version").output();
    let postgres = postgres.map_or(String::new(), |out| {
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    });
    format!(
        "{} · {count} × {} · {} of memory · Linux {} · {postgres}",
        jiff::Zoned::now().date(),
        value(&cpus, "model name"),
        value(&memory, "MemTotal"),
        read("/proc/sys/kernel/osrelease").trim(),
    )
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(dir)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: bench-report FIGURES.jsonl DIR");
        std::process::exit(2);
    };
    let dir = Path::new(&dir);
    let plots = dir.join("plots");
    std::fs::create_dir_all(&plots)?;
    let text = std::fs::read_to_string(&path)?;
    let figures: Vec<Figure> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a figure"))
        .collect();
    let mut benches: Vec<&str> = Vec::new();
    for figure in &figures {
        if !benches.contains(&figure.bench.as_str()) {
            benches.push(&figure.bench);
        }
    }
    let mut page = format!("# Measured\n\n{}\n", machine());
    for bench in benches {
        let _ = write!(
            page,
            "\n## {bench}\n\n| what | | | aim | |\n| --- | ---: | --- | --- | --- |\n"
        );
        let own: Vec<&Figure> = figures.iter().filter(|f| f.bench == bench).collect();
        for figure in &own {
            let (aim, met) = match aims::judge(figure, &figures) {
                Some((aim, true)) => (aim, "met"),
                Some((aim, false)) => (aim, "**not met**"),
                None => (String::new(), ""),
            };
            let value = shown(figure.value);
            let _ = writeln!(
                page,
                "| {} | {value} | {} | {aim} | {met} |",
                figure.name, figure.unit
            );
        }
        let mut units: BTreeMap<&str, Vec<&Figure>> = BTreeMap::new();
        for figure in &own {
            units.entry(&figure.unit).or_default().push(figure);
        }
        let drawn = units.iter().filter(|(_, figures)| figures.len() > 1);
        for ((unit, figures), n) in drawn.zip(1..) {
            let name = format!("{bench}-{n}.svg");
            std::fs::write(plots.join(&name), plot(bench, unit, figures))?;
            let _ = write!(page, "\n![{bench}, {unit}](plots/{name})\n");
        }
    }
    std::fs::write(dir.join("report.md"), page)
}
