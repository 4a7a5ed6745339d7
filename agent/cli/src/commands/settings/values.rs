//! From the text of one setting to its value.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use farmhand_core::document::{Wrong, parse_duration};
use toml::de::DeValue;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use farmhand_node::runlog::{Format, RunLogConfig};
use farmhand_warden_client::helper;

/// Strings, numbers and booleans alike, as they would be written on a command line.
pub(super) fn scalar(value: &DeValue<'_>) -> Result<String, Wrong> {
    match value {
        DeValue::String(s) => Ok(s.to_string()),
        DeValue::Integer(n) => Ok(n.to_string()),
        DeValue::Boolean(true) => Ok("on".to_owned()),
        DeValue::Boolean(false) => Ok("off".to_owned()),
        other => Err(Wrong::new(
            format!("expected a string, found a {}", other.type_str()),
            "write it in quotes",
        )),
    }
}

pub(super) fn name(text: &str) -> Result<String, String> {
    let good = !text.is_empty()
        && text.len() <= 200
        && !text.contains(|c: char| c.is_control() || c.is_whitespace());
    good.then(|| text.to_owned())
        .ok_or_else(|| "write 1 to 200 characters without spaces".to_owned())
}

pub(super) fn slots(text: &str) -> Result<u32, String> {
    text.parse::<u32>()
        .ok()
        .filter(|n| (1..=10_000).contains(n))
        .ok_or_else(|| "write a number from 1 to 10000".to_owned())
}

pub(super) fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| "write an IP address and a port (127.0.0.1:7070, [::1]:7070), or off".to_owned())
}

pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    std::path::absolute(text).map_err(|error| error.to_string())
}

pub(super) fn policy(text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        "off" => Ok(None),
        _ => directory(text).map(Some),
    }
}

/// The default list of trusted keys, unless it is absent. One that cannot be looked up counts: reading it says why.
pub(super) fn default_keys(file: &Path) -> Option<PathBuf> {
    match file.symlink_metadata().map_err(|e| e.kind()) {
        Err(ErrorKind::NotFound) => None,
        // Root looked it up before it became a user who may not.
        Err(ErrorKind::PermissionDenied) if helper::here().is_some() => helper::here()?.trusted_keys(),
        _ => Some(file.to_owned()),
    }
}

/// A user of the machine, or nobody else than who starts it.
pub(super) fn user(text: &str) -> Result<Option<String>, String> {
    match text {
        "off" => Ok(None),
        _ => name(text).map(Some),
    }
}

/// What the agent logs: `FARMHAND_LOG`, in the syntax of tracing's filters. The scheduler of the housekeeping says only warnings.
pub(in crate::commands) fn log_filter(env: &BTreeMap<String, String>) -> Result<EnvFilter, String> {
    let set = env.get("FARMHAND_LOG").filter(|text| !text.trim().is_empty());
    let text = set.map_or("info", String::as_str);
    let wrong = |why: String| {
        format!(
            "FARMHAND_LOG=\"{text}\": {why}; write trace, debug, info, warn, error or off, or TARGET=LEVEL, with commas between"
        )
    };
    // Any other word would be a target, and everything else silent.
    let is_level = |word: &str| word.contains(['=', '[']) || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = text.split(',').map(str::trim).find(|word| !is_level(word)) {
        return Err(wrong(format!("there is no level \"{word}\"")));
    }
    let filter = EnvFilter::builder().parse(format!("tokio_cron_scheduler=warn,{text}"));
    filter.map_err(|e| wrong(e.to_string()))
}

pub(in crate::commands) fn default_state_dir(env: &BTreeMap<String, String>) -> Result<PathBuf, String> {
    // systemd names it so for units with StateDirectory=.
    if let Some(dir) = env.get("STATE_DIRECTORY").and_then(|d| d.split(':').next()) {
        return Ok(PathBuf::from(dir));
    }
    // Who reads the settings again is no longer root where a helper is.
    if rustix::process::geteuid().is_root() || helper::here().is_some() {
        return Ok(PathBuf::from("/var/lib/farmhand"));
    }
    if let Some(state) = env.get("XDG_STATE_HOME").filter(|d| d.starts_with('/')) {
        return Ok(Path::new(state).join("farmhand"));
    }
    env.get("HOME")
        .map(|home| Path::new(home).join(".local/state/farmhand"))
        .ok_or_else(|| "there is no home directory to put it in: name one".to_owned())
}

pub(in crate::commands) fn lease_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse_duration(text)?;
    if ttl < Duration::from_secs(3) || ttl > Duration::from_secs(3600) {
        return Err("write a duration from 3s to 1h".to_owned());
    }
    Ok(ttl)
}

pub(super) fn retention(text: &str) -> Result<Duration, String> {
    let kept = parse_duration(text)?;
    if kept < Duration::from_secs(3600) {
        return Err("write a duration from 1h up".to_owned());
    }
    Ok(kept)
}

pub(super) fn run_log(text: &str) -> Result<Option<RunLogConfig>, String> {
    let (service, socket) = text.split_once(':').unzip();
    let format = match service.unwrap_or(text) {
        // As a boolean in the file.
        "none" | "off" if socket.is_none() => return Ok(None),
        "journald" => Format::Journald,
        "syslog" => Format::Syslog,
        _ => return Err("write none, journald or syslog, or with its socket syslog:PATH".to_owned()),
    };
    Ok(Some(RunLogConfig {
        format,
        socket: directory(socket.unwrap_or(format.default_socket()))?,
    }))
}

pub(super) fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}
