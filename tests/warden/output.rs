//! Floods, full disks, and what is said about them.

use std::path::Path;

use farmhand_tests::tmpfs::Tmpfs;
use farmhand_warden_client::wire::*;
use farmhand_warden_client::{WardenClient, WardenError};

use super::harness::*;

#[tokio::test]
async fn a_flood_is_bounded_counted_and_its_neighbour_unharmed() {
    let mut farmer = Farmer::new().await;
    let mut flood = sh(
        id(1, 1),
        "yes 'all work and no play' | head -c 100000000; echo; echo last",
    );
    flood.output_local = 1 << 20;
    farmer.spawn(flood).await;
    let (quick, _) = farmer.run(sh(id(2, 1), "echo quick")).await;
    assert!(quick.succeeded());
    let (result, output) = farmer.ended(id(1, 1)).await;
    assert!(result.succeeded(), "{result:?}");
    assert_eq!(result.output.bytes, 100_000_006);
    assert_eq!(result.output.error, None);
    assert_eq!(output.stdout.len() as u64 + output.dropped, 100_000_006);
    assert_eq!(output.dropped, result.output.dropped_bytes);
    assert!(output.stdout.starts_with("all work") && output.stdout.ends_with("\nlast\n"));
    assert!(size(&farmer.paths().attempt_dir(id(1, 1))) <= 1 << 20);
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    entries
        .filter(|e| e.path().is_file())
        .map(|e| e.metadata().unwrap().len())
        .sum()
}

#[tokio::test]
async fn a_full_disk_stops_neither_the_attempt_nor_the_warden() {
    needs_root();
    let farmer = Farmer::new().await;
    let _mount = Tmpfs::mount(&farmer.paths().runs(), "256k");
    let mut farmer = farmer;
    let (result, output) = farmer
        .run(sh(id(1, 1), "head -c 2000000 /dev/zero | tr '\\0' x; exit 6"))
        .await;
    assert_eq!(result.exit_code(), Some(6), "{result:?}");
    assert_eq!(result.output.bytes, 2_000_000);
    let error = result.output.error.clone().unwrap();
    assert!(error.contains("No space left on device"), "{error}");
    assert_eq!(
        output.stdout.len() as u64 + result.output.dropped_bytes,
        2_000_000
    );
    assert!(result.output.dropped_bytes > 1_500_000 && !output.stdout.is_empty());
    let (second, _) = farmer.run(sh(id(2, 1), "echo still; exit 0")).await;
    assert!(second.succeeded(), "{second:?}");
}

#[tokio::test]
async fn where_a_run_directory_cannot_be_made_nothing_starts_in_another() {
    needs_root();
    let farmer = Farmer::new().await;
    std::fs::remove_dir(farmer.paths().runs()).unwrap();
    std::fs::write(farmer.paths().runs(), "in the way").unwrap();
    let refused = farmer.client.spawn(sh(id(1, 1), "pwd")).await;
    assert!(
        matches!(refused, Err(WardenError::Refused(Refusal::Machine { .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn output_of_thousands_of_lines_on_both_streams_is_complete() {
    let mut farmer = Farmer::new().await;
    let script = "i=0; while [ $i -lt 3000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let (result, output) = farmer.run(sh(id(1, 1), script)).await;
    let lines = |letter: char| (0..3000).map(|i| format!("{letter}{i}\n")).collect::<String>();
    assert!(output.stdout == lines('o') && output.stderr == lines('e'));
    assert_eq!(
        result.output,
        OutputStats {
            bytes: result.output.bytes,
            dropped_bytes: 0,
            error: None
        }
    );
}

#[tokio::test]
async fn run_directories_may_be_on_a_file_system_of_their_own() {
    needs_root();
    let base = state_dir();
    let _runs = Tmpfs::mount(&base.path().join("runs"), "64m");
    let launch = launch(base.path());
    let mut farmer = Farmer::start(state_dir(), &launch).await;
    let (result, output) = farmer
        .run(sh(id(1, 1), "mkdir -p a/b; echo kept >a/b/file; pwd"))
        .await;
    assert!(result.succeeded(), "{result:?}");
    let run_dir = farmer.paths().run_dir(id(1, 1));
    assert_eq!(output.stdout.trim(), run_dir.display().to_string());
    // The next agent finds both.
    let found = WardenClient::connect(base.path(), None, "n1").await;
    (farmer.client, farmer.notices) = found.unwrap().unwrap();
    assert_eq!(farmer.ended(id(1, 1)).await.1.stdout, output.stdout);
    assert_eq!(
        std::fs::read_to_string(run_dir.join("a/b/file")).unwrap(),
        "kept\n"
    );
    farmer.client.ack(id(1, 1), true).await.unwrap();
    assert_eq!(farmer.paths().attempts_on_disk().unwrap(), []);
    // Empty ones, too.
    farmer.run(sh(id(2, 1), "true")).await;
    farmer.client.ack(id(2, 1), true).await.unwrap();
    assert_eq!(farmer.paths().attempts_on_disk().unwrap(), []);
}
