//! Flows from the disk.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use farmhand_core::flow::{
    Malformed, Script, Selection, Task, add_pairs, doubtful, doubtful_functions, functions, scripts,
};

use super::extract::extract;

/// Where the tasks of a flow come from.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// A directory of scripts, or one shell file.
    pub path: Option<PathBuf>,
    /// Pairs in tsort's form; `-` is stdin.
    pub edges: Option<PathBuf>,
    /// Called with each script of the directory, prints its annotations.
    pub extract: Option<String>,
}

/// Why there is no flow.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{} cannot be read", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} of the flow cannot be understood", if .0.len() == 1 { "a file" } else { "some files" })]
    Malformed(Vec<Malformed>),
    #[error("the annotations of {script} cannot be extracted with `{command}`")]
    Extract {
        command: String,
        script: String,
        why: String,
    },
    #[error("{} holds no task", path.display())]
    Empty { path: PathBuf },
}

/// Reads all tasks, and what its author may have meant otherwise.
/// Errors: What cannot be read or understood, or that there is nothing to do.
pub fn load(source: &Source, selection: &Selection) -> Result<(Vec<Task>, Vec<Malformed>), LoadError> {
    let mut found = match &source.path {
        Some(path) if path.is_dir() => directory(path)?,
        Some(path) => vec![file(path)?],
        None => Vec::new(),
    };
    if let Some(command) = &source.extract {
        for script in &mut found {
            extract(command, script).map_err(|why| LoadError::Extract {
                command: command.clone(),
                script: script.path.clone(),
                why,
            })?;
        }
    }
    let mut tasks = match found.as_slice() {
        [one] => functions(&one.path, &one.text, selection),
        _ => Vec::new(),
    };
    let by_function = !tasks.is_empty();
    if !by_function {
        tasks = scripts(&found, selection).map_err(LoadError::Malformed)?;
    }
    let doubtful = match found.as_slice() {
        [one] if by_function => doubtful_functions(one),
        _ => doubtful(&found, selection),
    };
    if let Some(edges) = &source.edges {
        let text = pairs(edges)?;
        let name = if edges.as_os_str() == "-" {
            "stdin"
        } else {
            &edges.to_string_lossy()
        };
        add_pairs(&mut tasks, name, &text, source.path.is_none())
            .map_err(|e| LoadError::Malformed(vec![e]))?;
    }
    if tasks.is_empty() {
        let path = source
            .path
            .clone()
            .or_else(|| source.edges.clone())
            .unwrap_or_default();
        return Err(LoadError::Empty { path });
    }
    Ok((tasks, doubtful))
}

fn directory(path: &Path) -> Result<Vec<Script>, LoadError> {
    let absolute = fs::canonicalize(path).map_err(|source| io_error(path, source))?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&absolute).map_err(|source| io_error(path, source))? {
        let entry = entry.map_err(|source| io_error(path, source))?;
        let name = entry.file_name();
        // Symbolic links count as what they point to, as rc directories have it.
        let Ok(meta) = fs::metadata(entry.path()) else {
            continue;
        };
        if meta.is_file() && !is_leftover(&name) {
            found.push(script(&entry.path(), &meta)?);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn script(path: &Path, meta: &fs::Metadata) -> Result<Script, LoadError> {
    let bytes = fs::read(path).map_err(|source| io_error(path, source))?;
    Ok(Script {
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        path: path.to_string_lossy().into_owned(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
        executable: meta.permissions().mode() & 0o111 != 0,
    })
}

/// What editors and package managers leave behind, and hidden files.
fn is_leftover(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let ends = [
        "~", ".bak", ".orig", ".rej", ".rpmsave", ".rpmnew", ".rpmorig", ".swp",
    ];
    name.starts_with('.') || name.contains(".dpkg-") || ends.iter().any(|e| name.ends_with(e))
}

fn file(path: &Path) -> Result<Script, LoadError> {
    let absolute = fs::canonicalize(path).map_err(|source| io_error(path, source))?;
    let meta = fs::metadata(&absolute).map_err(|source| io_error(path, source))?;
    script(&absolute, &meta)
}

fn pairs(path: &Path) -> Result<String, LoadError> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        fs::read(path).map(|read| bytes = read)
    };
    read.map_err(|source| io_error(path, source))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn io_error(path: &Path, source: io::Error) -> LoadError {
    LoadError::Io {
        path: path.to_owned(),
        source,
    }
}
