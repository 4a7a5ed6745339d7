//! What has to be true of the repository itself: its dependencies and what its documents name.
//! `deny.toml` holds the lists, so that people with cargo-deny and machines without it check the same.

mod attacks;
mod commands;
mod crates;
mod cycles;
mod dependencies;
mod documents;
mod guards;
mod item_docs;
mod kinds;
mod metrics;
mod package;
mod sbom;
mod schema;
mod sittings;
mod systemd;

use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests crate lies in the workspace")
        .to_path_buf()
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The folders of the crates that are shipped.
fn crates() -> Vec<String> {
    let mut found = Vec::new();
    for part in ["common", "agent"] {
        for entry in std::fs::read_dir(root().join(part)).expect("a readable directory") {
            let name = entry.expect("a readable entry").file_name();
            found.push(format!("{part}/{}", name.to_str().expect("UTF-8")));
        }
    }
    found.sort();
    found
}
