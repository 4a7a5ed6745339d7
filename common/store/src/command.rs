//! A command that prints a password.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// More is no password and no token.
const LONGEST: u64 = 64 * 1024;

/// Ends the whole group of a command that has not ended by itself.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// What the shell command prints, without the newline at its end. It is run as PostgreSQL runs its own commands
/// (`ssl_passphrase_command`), gets nothing of Farmhand's settings, and is killed with all that it started after `limit`.
pub(crate) async fn output(
    line: &str,
    environment: &[(&str, &str)],
    limit: Duration,
) -> Result<String, String> {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", line])
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("FARMHAND_") || text == "DATABASE_URL" || text == "PGPASSWORD" {
            command.env_remove(&name);
        }
    }
    let mut child = command.spawn().map_err(|e| format!("does not start: {e}"))?;
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let mut group = Group(pid);
    let told = async {
        let mut text = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let read = stdout.take(LONGEST + 1).read_to_end(&mut text).await;
            read.map_err(|e| format!("cannot be read: {e}"))?;
        }
        if text.len() as u64 > LONGEST {
            return Err(format!("prints more than {LONGEST} bytes"));
        }
        let ended = child.wait().await.map_err(|e| format!("is lost: {e}"))?;
        group.0 = None;
        if !ended.success() {
            return Err(format!("fails ({ended}); its standard error says why"));
        }
        Ok(text)
    };
    let text = match tokio::time::timeout(limit, told).await {
        Ok(told) => told?,
        Err(_) => return Err(format!("prints none within {limit:.1?}")),
    };
    let text = String::from_utf8(text).map_err(|_| "prints what is not UTF-8".to_owned())?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err("prints nothing".to_owned()),
        password => Ok(password.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    async fn told(line: &str) -> Result<String, String> {
        output(line, &[("PGHOST", "db")], Duration::from_secs(20)).await
    }

    #[tokio::test]
    async fn a_command_is_the_shells_and_knows_the_server() {
        let told = told("printf '%s!\\n' \"$PGHOST\" | tr d D").await;
        assert_eq!(told.as_deref(), Ok("Db!"));
    }

    #[tokio::test]
    async fn a_command_that_prints_no_password_says_how_and_nothing_is_repeated() {
        for (line, said) in [
            ("true", "prints nothing"),
            ("echo geheim; exit 3", "exit status: 3"),
            ("/nonexistent/geheim 2>/dev/null", "exit status: 127"),
            ("yes geheim", "more than 65536 bytes"),
            ("printf '\\377'", "not UTF-8"),
        ] {
            let why = told(line).await.unwrap_err();
            assert!(why.contains(said) && !why.contains("geheim"), "{line}: {why}");
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_what_it_started() {
        let dir = std::env::temp_dir().join(format!("farmhand-command-{}", std::process::id()));
        let line = format!("sleep 300 & echo $! > {}; wait", dir.display());
        let began = Instant::now();
        let why = output(&line, &[], Duration::from_secs(3)).await.unwrap_err();
        assert!(why.contains("within 3.0s"), "{why}");
        assert!(began.elapsed() < Duration::from_secs(20));
        let pid = std::fs::read_to_string(&dir).unwrap();
        std::fs::remove_file(&dir).unwrap();
        let lives = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        while lives() {
            assert!(began.elapsed() < Duration::from_secs(20), "{pid} lives");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
