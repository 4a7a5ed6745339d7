//! Figures of the other programs into one page with plots:
//!
//!     bench-report FIGURES.jsonl > report.md
//!
//! Each figure beside its aim (`aims.rs`), where it has one. Each line is `{"bench", "name", "value", "unit"}`. `tests/bench/run` runs everything and then this.

mod aims;

use std::collections::BTreeMap;
use std::fmt::Write;

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

fn main() {
    let path = std::env::args()
        .nth(1)
        .expect("usage: bench-report FIGURES.jsonl");
    let text = std::fs::read_to_string(&path).expect("the figures");
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
    println!("# Measured\n");
    for bench in benches {
        println!("## {bench}\n\n| what | | | aim | |\n| --- | ---: | --- | --- | --- |");
        let own: Vec<&Figure> = figures.iter().filter(|f| f.bench == bench).collect();
        for figure in &own {
            let (aim, met) = match aims::judge(figure, &figures) {
                Some((aim, true)) => (aim, "met"),
                Some((aim, false)) => (aim, "**not met**"),
                None => (String::new(), ""),
            };
            let value = shown(figure.value);
            println!("| {} | {value} | {} | {aim} | {met} |", figure.name, figure.unit);
        }
        println!();
        let mut units: BTreeMap<&str, Vec<&Figure>> = BTreeMap::new();
        for figure in &own {
            units.entry(&figure.unit).or_default().push(figure);
        }
        for (unit, figures) in units.iter().filter(|(_, figures)| figures.len() > 1) {
            println!("{}\n", plot(bench, unit, figures));
        }
    }
}
