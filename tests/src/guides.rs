//! The commands of guides, to be run as they stand there.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::bin::farmhand;

/// The `sh` blocks of a guide.
pub fn blocks(guide: &str) -> Vec<String> {
    blocks_of(guide, "sh")
}

/// Its blocks in this language.
pub fn blocks_of(guide: &str, language: &str) -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/");
    let text = fs::read_to_string(format!("{root}{guide}")).unwrap();
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
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
