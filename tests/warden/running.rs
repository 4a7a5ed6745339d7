//! What a command gets, and what is told about it.

use farmhand::warden::protocol::*;

use super::harness::*;

#[tokio::test]
async fn a_command_runs_and_its_status_and_output_are_told() {
    let mut farmer = Farmer::new().await;
    let (result, output) = farmer.run(sh(id(1, 1), "echo out; echo err >&2; exit 3")).await;
    assert_eq!(result.ending, Ending::Exited { code: 3 });
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(
        (result.output.bytes, result.output.dropped_bytes, result.killed),
        (8, 0, None)
    );
    assert!(result.max_rss_bytes > 0 && result.ended_ns > result.started_ns);
}
