//! The commands of guides are run as they stand there.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use farmhand_tests::bin::farmhand;
use farmhand_tests::wait::eventually;

use super::fixture::write_script;

/// The `sh` blocks of a guide.
pub fn blocks(guide: &str) -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/");
    let text = fs::read_to_string(format!("{root}{guide}")).unwrap();
    let blocks = text.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// A shell that runs `block` in `place`, where programs of the tests come before others, in a group of its own.
pub fn shell(block: &str, place: &std::path::Path) -> Command {
    let path = std::env::var("PATH").unwrap();
    let ours = farmhand().parent().unwrap().display();
    let mut shell = Command::new("sh");
    shell.args(["-euc", block]).current_dir(place).process_group(0);
    shell.env("PATH", format!("{}:{ours}:{path}", place.display()));
    shell.stdin(Stdio::null());
    shell
}

#[test]
fn both_wrappers_of_the_guide_keep_eight_workers() {
    let blocks = blocks("workers.md");
    assert_eq!(blocks.len(), 2, "the shell's and ours");
    for block in blocks {
        let place = tempfile::tempdir().unwrap();
        write_script(
            place.path(),
            "php",
            "#!/bin/sh\necho \"$@\" >> calls\nsleep 0.2\n",
        );
        let mut wrapper = shell(&block, place.path()).stderr(Stdio::null()).spawn().unwrap();
        eventually("each worker runs twice", Duration::from_secs(20), || {
            let calls = fs::read_to_string(place.path().join("calls")).unwrap_or_default();
            let twice = |n: i32| calls.lines().filter(|l| *l == format!("worker.php {n}")).count() >= 2;
            (0..8).all(twice).then_some(()).ok_or(calls)
        });
        // SAFETY: the group of a child that was not waited for.
        unsafe { libc::kill(-wrapper.id().cast_signed(), libc::SIGKILL) };
        wrapper.wait().unwrap();
    }
}
