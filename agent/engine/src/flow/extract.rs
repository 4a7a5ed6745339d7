//! Annotations of scripts that a command of the user's reads, and prints as ours: `KEY: value`, one a line.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use farmhand_core::flow::{Script, is_annotation};
use farmhand_os::readable::is_readable;
use rustix::process::{Pid, Signal, kill_process_group};

const LONGEST: Duration = Duration::from_secs(10);
const MOST: usize = 64 << 10;
const LOOK: Duration = Duration::from_millis(10);

/// Puts what the command prints in place of the script's text.
/// Errors: When it cannot be run, fails, prints something else, or does not come to its end.
pub(super) fn extract(command: &str, script: &mut Script) -> Result<(), String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", &format!("{command} \"$@\""), "farmhand", &script.path])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("/bin/sh cannot be executed: {e}"))?;
    let printed = printed(&mut child);
    if printed.is_err() {
        let _ = Pid::from_raw(child.id().cast_signed()).map(|pid| kill_process_group(pid, Signal::KILL));
        let _ = child.wait();
    }
    let mut text = String::new();
    for line in String::from_utf8_lossy(&printed?).lines() {
        let annotation = format!("# {line}\n");
        if !line.is_empty() && !is_annotation(&annotation) {
            return Err(format!(
                "it printed `{line}`, which is not an annotation such as `REQUIRE: disk`"
            ));
        }
        text += &annotation;
    }
    script.text = text;
    Ok(())
}

fn printed(child: &mut Child) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + LONGEST;
    let late = || format!("it took more than {} s", LONGEST.as_secs());
    let failed = |e: io::Error| format!("its output cannot be read: {e}");
    let mut printed = Vec::new();
    let mut buffer = vec![0; MOST];
    if let Some(mut stdout) = child.stdout.take() {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !is_readable(&stdout, left) {
                return Err(late());
            }
            let count = stdout.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            printed.extend(&buffer[..count]);
            if printed.len() > MOST {
                return Err(format!("it printed more than {} KiB", MOST >> 10));
            }
        }
    }
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(printed),
            Some(status) => {
                let code = status.code().map(|code| format!("exit code {code}"));
                return Err(code.unwrap_or_else(|| status.to_string()));
            }
            None if Instant::now() > deadline => return Err(late()),
            None => std::thread::sleep(LOOK),
        }
    }
}
