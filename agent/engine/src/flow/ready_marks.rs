//! A task says that it is ready although it goes on: a file in `.mark`, so that it works without a socket and
//! from any user's shell that may write there.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Longer requests are nobody's.
const MAX: u64 = 64 << 10;

/// A task that asks for a name to be marked as provided.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    pub task: String,
    pub name: String,
}

/// Puts a request before the engine.
pub fn put(deps: &Path, request: &Request) -> io::Result<()> {
    let dir = deps.join(".mark");
    let id = uuid::Uuid::new_v4().simple().to_string();
    let temporary = dir.join(format!(".{id}"));
    fs::write(&temporary, serde_json::to_vec(request)?)?;
    fs::rename(&temporary, dir.join(id))
}

/// Takes one. What is no request is thrown away.
pub fn take(deps: &Path, file: &OsStr) -> Option<Request> {
    let path = deps.join(".mark").join(file);
    let short = fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= MAX);
    let request = short.then(|| fs::read(&path).ok()).flatten();
    // A file that stays is looked at once only, all the same.
    let _ = fs::remove_file(&path);
    serde_json::from_slice(&request?).ok()
}
