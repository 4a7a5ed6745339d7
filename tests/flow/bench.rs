//! The bench of `tests/bench/flow`, so that it does not rot.

use std::process::Command;

use super::fixture::text;

#[test]
fn the_bench_runs_small_graphs_in_every_way_there_is() {
    let out = Command::new(env!("CARGO_BIN_EXE_bench-flow"))
        .arg("--smoke")
        .env("FARMHAND_BIN", farmhand_tests::bin::farmhand())
        .output()
        .expect("the bench runs");
    let said = text(&out.stdout);
    assert!(out.status.success(), "{said}{}", text(&out.stderr));
    let rows = |name: &str| {
        said.lines()
            .filter(|l| l.starts_with(&format!("{name}  ")))
            .count()
    };
    assert_eq!((rows("farmhand"), rows("farmhand --preload")), (6, 6), "{said}");
    assert!(
        said.contains("bytes per task") && said.contains("a FIFO of the flow"),
        "{said}"
    );
}
