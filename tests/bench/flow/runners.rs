//! The ways to run a graph.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use farmhand_tests::bin::farmhand;
use tempfile::TempDir;

use super::graphs::Graph;
use super::measure::{Run, one_by_one, run};

/// Tasks at a time, for all.
const JOBS: &str = "64";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// No graph at all: every script started and awaited, one after the other.
    Bare,
    Farmhand,
    Preload,
    Make,
    Ninja,
    ShellFifo,
}

/// A graph as every runner wants it.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new(graph: &Graph) -> Self {
        let dir = TempDir::new_in(memory()).expect("a temporary directory");
        let place = Self { dir };
        place.write("library", &Graph::library());
        for (kind, preloaded) in [("scripts", false), ("preloaded", true)] {
            fs::create_dir(place.path(kind)).expect("a directory");
            for (task, name) in graph.names.iter().enumerate() {
                let text = graph.script(task, &place.path("library"), preloaded);
                place.write(&format!("{kind}/{name}"), &text);
            }
        }
        place.write("Makefile", &makefile(graph));
        place.write("build.ninja", &ninja(graph));
        place.write("fifo.sh", &fifo(graph));
        place.write("names", &graph.names.join("\n"));
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).expect("a file can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
}

impl Runner {
    pub const ALL: [Self; 6] = [
        Self::Bare,
        Self::Farmhand,
        Self::Preload,
        Self::Make,
        Self::Ninja,
        Self::ShellFifo,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "(scripts alone, one by one)",
            Self::Farmhand => "farmhand",
            Self::Preload => "farmhand --preload",
            Self::Make => "make -j64",
            Self::Ninja => "ninja -j64",
            Self::ShellFifo => "shell with FIFO files",
        }
    }

    /// Why it cannot run here, and what to do about it.
    pub fn missing(self) -> Option<String> {
        let (program, package) = match self {
            Self::Make => ("make", "make"),
            Self::Ninja => ("ninja", "ninja-build"),
            _ => return None,
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).any(|dir| dir.join(program).exists());
        (!found).then(|| format!("{program} is missing: apt-get install {package}"))
    }

    pub fn run(self, place: &Place, graph: &Graph) -> Option<Run> {
        let mut command = match self {
            Self::Bare => return bare(place, graph),
            Self::Farmhand => flow(&place.path("scripts")),
            Self::Preload => {
                let mut command = flow(&place.path("preloaded"));
                command.arg("--preload").arg(place.path("library"));
                command
            }
            Self::Make => {
                let mut command = Command::new("make");
                command.args(["-s", "-r", "-R", "-j", JOBS, "-f", "Makefile"]);
                command
            }
            Self::Ninja => {
                let mut command = Command::new("ninja");
                command.args(["--quiet", "-j", JOBS]);
                command
            }
            Self::ShellFifo => {
                let fifos = place.path("fifos");
                let _ = fs::remove_dir_all(&fifos);
                fs::create_dir(&fifos).expect("a directory");
                let mut command = Command::new("/bin/sh");
                command.arg("fifo.sh");
                command
            }
        };
        command.current_dir(place.dir.path()).env("TMPDIR", memory());
        let mut run = run(&mut command, &place.path("stderr"))?;
        run.over_critical_path = over_critical_path(&run, graph);
        Some(run)
    }
}

/// What the scripts cost by themselves.
fn bare(place: &Place, graph: &Graph) -> Option<Run> {
    if matches!(graph.body, super::Body::Sleep(_)) {
        return None;
    }
    let commands = graph.names.iter().map(|name| {
        let mut command = Command::new(place.path("scripts").join(name));
        command.arg("start");
        command
    });
    Some(one_by_one(commands))
}

fn flow(dir: &Path) -> Command {
    let mut command = Command::new(farmhand());
    command.args(["flow", "run", "-j", JOBS]).arg(dir);
    command
}

/// For all runners alike: what ext4 takes to make a file depends on what was deleted a moment ago.
fn memory() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() {
        shared
    } else {
        std::env::temp_dir()
    }
}

/// The whole wall time against the durations along the critical path, as the engine measured them.
fn over_critical_path(run: &Run, graph: &Graph) -> Option<f64> {
    if !matches!(graph.body, super::Body::Sleep(_)) {
        return None;
    }
    let line = run
        .stderr
        .lines()
        .find_map(|l| l.strip_prefix("critical path "))?;
    let length: f64 = line.split(' ').next()?.parse().ok()?;
    Some(run.wall.as_secs_f64() / length - 1.0)
}

fn makefile(graph: &Graph) -> String {
    let all = graph.names.join(" ");
    let mut text = format!("all: {all}\n.PHONY: all {all}\n");
    for (name, after) in graph.names.iter().zip(&graph.after) {
        let after: Vec<&str> = after.iter().map(|d| &*graph.names[*d]).collect();
        let _ = writeln!(text, "{name}: {}\n\t@scripts/{name} start", after.join(" "));
    }
    text
}

fn ninja(graph: &Graph) -> String {
    let mut text = "rule run\n  command = scripts/$out start\n".to_owned();
    for (name, after) in graph.names.iter().zip(&graph.after) {
        let after: Vec<&str> = after.iter().map(|d| &*graph.names[*d]).collect();
        let _ = writeln!(text, "build {name}: run {}", after.join(" "));
    }
    text
}

/// One shell for each waiting task; the protocol that may lose a wake-up.
fn fifo(graph: &Graph) -> String {
    let mut text = "mkfifo $(sed 's|^|fifos/|' names)\n".to_owned();
    text += "end() { mv \"fifos/$1\" \"fifos/.$1\"; true <> \"fifos/.$1\"; rm \"fifos/.$1\"; }\n";
    for (name, after) in graph.names.iter().zip(&graph.after) {
        let waits: String = after
            .iter()
            .map(|d| format!("[ -p fifos/{0} ] && true < fifos/{0}; ", graph.names[*d]))
            .collect();
        let _ = writeln!(
            text,
            "{{ {waits}scripts/{name} start; end {name}; }} 2>/dev/null &"
        );
    }
    text + "wait\n"
}
