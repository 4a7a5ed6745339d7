//! Programs that run commands in parallel, each with as many in flight. None of them records anything durably.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use farmhand_tests::bench::figure;

/// Name, the package that has it, and its command line; `@FILE@` is the file that [`input`] wrote for it.
const PEERS: [(&str, &str, &[&str]); 4] = [
    ("make", "make", &["--silent", "-f", "@FILE@"]),
    ("xargs", "findutils", &["-n1", "-a", "@FILE@", "/bin/true"]),
    ("ninja", "ninja-build", &["-f", "@FILE@", "--quiet"]),
    ("parallel", "parallel", &["-a", "@FILE@", "/bin/true"]),
];

pub fn measure(runs: usize, in_flight: usize) {
    let dir = std::env::temp_dir().join(format!("farmhand-bench-spawn-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    for (name, package, arguments) in PEERS {
        let file = dir.join(name);
        fs::write(&file, input(name, runs)).expect("a file");
        match seconds(&dir, name, arguments, &file, in_flight) {
            Some(taken) => figure(
                "spawn",
                &format!("peer {name}, {in_flight} in flight"),
                runs as f64 / taken,
                "runs/s",
            ),
            None => println!("{name} is not here and is left out: apt-get install {package}"),
        }
    }
    fs::remove_dir_all(&dir).expect("the directory can be removed");
}

fn input(name: &str, runs: usize) -> String {
    let mut text = String::new();
    match name {
        "make" => {
            text.push_str(".PHONY: all\nall:");
            for n in 0..runs {
                let _ = write!(text, " t{n}");
            }
            for n in 0..runs {
                let _ = write!(text, "\n.PHONY: t{n}\nt{n}:\n\t/bin/true\n");
            }
        }
        "ninja" => {
            text.push_str("rule true\n  command = /bin/true\n");
            for n in 0..runs {
                let _ = writeln!(text, "build t{n}: true");
            }
        }
        _ => {
            for n in 0..runs {
                let _ = writeln!(text, "{n}");
            }
        }
    }
    text
}

/// `None` where the program is not installed.
///
/// # Panics
/// When it fails.
fn seconds(dir: &Path, name: &str, arguments: &[&str], file: &Path, in_flight: usize) -> Option<f64> {
    let parallel = match name {
        "xargs" => format!("-P{in_flight}"),
        _ => format!("-j{in_flight}"),
    };
    let arguments = arguments
        .iter()
        .map(|argument| argument.replace("@FILE@", &file.display().to_string()));
    let began = Instant::now();
    let status = Command::new(name)
        .arg(parallel)
        .args(arguments)
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    assert!(status.success(), "{name}: {status}");
    Some(began.elapsed().as_secs_f64())
}
