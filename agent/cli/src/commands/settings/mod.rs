//! Flags over `FARMHAND_*` over the configuration file over defaults, checked, every mistake at once.

mod outside;
mod proxy;
mod serving;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::values::*;
pub(super) use self::values::{default_state_dir, lease_ttl, log_filter};
use super::agent::AgentArgs;
use super::{Failure, database, out};
use farmhand_core::definition::NODE_LABEL;
use farmhand_core::document::{Mistakes, Reader, Sink, Source, Wrong, parse_duration, parse_table, text};
use farmhand_node::config::AgentConfig;
use farmhand_policy::trust;
use farmhand_warden_client::helper::{self, Purpose};
use serde_json::Value;

/// The variables of this process.
pub(super) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect()
}

/// What a setting is called in the file, with the table that it is in; upper-cased after `FARMHAND_` in the environment, and with dashes
/// as a flag.
type Key = &'static str;

/// The tables of settings in the file.
const TABLES: [&str; 2] = ["smtp", "ping"];

const OWN_LABEL: &str = "every node has this label by itself, with its address as value";

/// Where a value was written.
enum Origin {
    Flag,
    Variable(String),
    File(std::ops::Range<usize>),
}

/// Reads and checks the configuration of an agent. Called again for SIGHUP.
/// Errors: Every mistake in flags, environment and file; exit code 2.
pub(super) fn load(args: &AgentArgs, env: &BTreeMap<String, String>) -> Result<AgentConfig, Failure> {
    let path = file(args, env);
    let source = path.as_deref().map(read).transpose()?;
    let empty = Source {
        name: String::new(),
        text: String::new(),
    };
    let source = source.unwrap_or(empty);
    let sink = Sink::new(0, &source.text);
    let table = parse_table(&sink, &source.text);
    let mut file = Reader::new(vec![&table], &sink);
    let tables = TABLES.iter().filter_map(|name| Some((*name, file.table(name)?)));
    let mut merge = Merge {
        args,
        flags: serde_json::to_value(args).unwrap_or_default(),
        env,
        tables: tables.collect(),
        file,
        sink: &sink,
        mistakes: Vec::new(),
    };
    let config = merge.config();
    let Merge {
        file,
        tables,
        mistakes,
        ..
    } = merge;
    file.finish(&[("label", "did you mean `labels`?")]);
    tables.values().for_each(|table| table.finish(outside::HINTS));
    let in_file = Mistakes::check(std::slice::from_ref(&source), sink.into_problems());
    match (config, mistakes.is_empty(), in_file) {
        (Some(config), true, Ok(())) => Ok(config),
        (_, _, in_file) => Err(refusal(mistakes, in_file.err())),
    }
}

/// The configuration file, if there is one.
pub(super) fn file(args: &AgentArgs, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let named = args.config.clone();
    named.or_else(|| env.get("FARMHAND_CONFIG").map(PathBuf::from))
}

fn read(path: &Path) -> Result<Source, Failure> {
    let text = helper::text_of(path, Purpose::Settings).map_err(|error| {
        Failure::usage(format!("cannot read the configuration {}", path.display())).why(error)
    })?;
    Ok(Source {
        name: path.display().to_string(),
        text,
    })
}

fn refusal(mistakes: Vec<String>, in_file: Option<Mistakes>) -> Failure {
    if let Some(in_file) = &in_file {
        out::raw_err(out::mistakes(in_file).as_bytes());
    }
    let count = mistakes.len() + in_file.map_or(0, |m| m.len());
    let what = match count {
        1 => "the configuration has a mistake".to_owned(),
        n => format!("the configuration has {n} mistakes"),
    };
    mistakes
        .into_iter()
        .fold(Failure::usage(what), Failure::why)
        .next("fix them and start again; `farmhand agent --help` lists every setting")
}

struct Merge<'a> {
    args: &'a AgentArgs,
    /// The same, by name.
    flags: Value,
    env: &'a BTreeMap<String, String>,
    file: Reader<'a>,
    tables: BTreeMap<&'static str, Reader<'a>>,
    sink: &'a Sink<'a>,
    mistakes: Vec<String>,
}

impl Merge<'_> {
    /// Every setting is read even when an earlier one is wrong.
    fn config(&mut self) -> Option<AgentConfig> {
        let database_url = self.database_url();
        let rows_database_url = self.other_database_url("rows_database_url");
        let definitions_database_url = self.other_database_url("definitions_database_url");
        let node_name = self.setting("node_name", name, || {
            Ok(gethostname::gethostname().to_string_lossy().into_owned())
        });
        let fallback = node_name.clone();
        let address = self.setting("address", name, || Ok(fallback.unwrap_or_default()));
        let slots = self.setting("slots", slots, || {
            Ok(std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)))
        });
        let listen = self.setting("listen", listen, || {
            Ok(Some(SocketAddr::from(([127, 0, 0, 1], 7070))))
        });
        let metrics_token = self.setting("metrics_token", on_off, || Ok(false));
        let serving = self.serving(listen.flatten(), metrics_token == Some(true));
        let env = self.env;
        let state_dir = self.setting("state_dir", directory, || default_state_dir(env));
        let lease_ttl = self.setting("lease_ttl", lease_ttl, || Ok(Duration::from_secs(120)));
        let notify = self.setting("notify", on_off, || Ok(true));
        let stop_timeout = self.setting("stop_timeout", parse_duration, || Ok(Duration::from_secs(30)));
        let retention = self.setting("retention", retention, || Ok(Duration::from_secs(30 * 86_400)));
        let run_log = self.setting("run_log", run_log, || Ok(None));
        let trusted_keys = self.setting("trusted_keys", policy, || {
            Ok(default_keys(Path::new(trust::DEFAULT_FILE)))
        });
        let policy = self.setting("policy", policy, || Ok(None));
        let user = self.setting("user", user, || Ok(None));
        if let (Some(Some(user)), Some(None)) = (&user, &policy) {
            self.mistakes.push(format!(
                "--user {user}: name a policy too (--policy FILE): without one jobs run as the agent's own user, and \
                 none may run as this one"
            ));
        }
        self.mistakes.extend(log_filter(self.env).err());
        let labels = self.labels();
        let outside = self.outside();
        let proxy = self.trusted_proxy();
        let (api, tls) = serving?;
        Some(AgentConfig {
            api,
            metrics_token: metrics_token?,
            tls,
            proxy: proxy?,
            database_url: database_url?,
            rows_database_url: rows_database_url?,
            definitions_database_url: definitions_database_url?,
            node_name: node_name?,
            address: address?,
            slots: slots?,
            labels,
            listen: listen?,
            state_dir: state_dir?,
            lease_ttl: lease_ttl?,
            notify: notify?,
            stop_timeout: stop_timeout?,
            retention: retention?,
            run_log: run_log?,
            user: user?,
            policy: policy?,
            trusted_keys: trusted_keys?,
            outside: outside?,
        })
    }

    /// The setting of this name; `None`: it is wrong, and that has been said.
    fn setting<T>(
        &mut self,
        key: Key,
        parse: impl Fn(&str) -> Result<T, String>,
        default: impl FnOnce() -> Result<T, String>,
    ) -> Option<T> {
        // The file is asked even when a flag wins: its key is known, and its mistakes count.
        let in_file = match key.split_once('.') {
            Some((table, key)) => (self.tables.get_mut(table)).and_then(|table| table.read(key, scalar)),
            None => self.file.read(key, scalar),
        };
        let variable = format!("FARMHAND_{}", key.replace('.', "_").to_ascii_uppercase());
        let in_env = self.env.get(&variable).cloned();
        let flag = self.flags[key].as_str().map(str::to_owned);
        let all = [
            in_file.map(|found| (found.value, Origin::File(found.span))),
            in_env.map(|text| (text, Origin::Variable(variable))),
            flag.map(|text| (text, Origin::Flag)),
        ];
        let mut result = None;
        for (text, from) in all.into_iter().flatten() {
            match parse(&text) {
                Ok(value) => result = Some(value),
                Err(why) => {
                    self.complain(key, &text, from, &why);
                    return None;
                }
            }
        }
        match result.map_or_else(default, Ok) {
            Ok(value) => Some(value),
            Err(why) => {
                self.mistakes.push(format!("--{}: {why}", key.replace('_', "-")));
                None
            }
        }
    }

    /// The same for one that has no default.
    fn optional<T>(&mut self, key: Key, parse: impl Fn(&str) -> Result<T, String>) -> Option<Option<T>> {
        self.setting(key, |text| parse(text).map(Some), || Ok(None))
    }

    fn complain(&mut self, key: Key, text: &str, from: Origin, why: &str) {
        match from {
            Origin::Flag => {
                let flag = key.replace('_', "-");
                self.mistakes.push(format!("--{flag} \"{text}\": {why}"));
            }
            Origin::Variable(name) => self.mistakes.push(format!("{name}=\"{text}\": {why}")),
            Origin::File(span) => {
                let wrong = Wrong::new(why, "see `farmhand agent --help`");
                let (.., key) = key.rsplit_once('.').unwrap_or(("", key));
                self.sink.wrong(span, key, wrong);
            }
        }
    }

    fn database_url(&mut self) -> Option<String> {
        let in_file = self.file.read("database_url", scalar).map(|found| found.value);
        match database::url(self.args.database_url.as_deref(), self.env, in_file) {
            Ok(url) => Some(url),
            Err(why) => {
                self.mistakes.push(why);
                None
            }
        }
    }

    /// The same database with another login.
    fn other_database_url(&mut self, key: Key) -> Option<Option<String>> {
        let (flag, variable) = (key.replace('_', "-"), key.to_ascii_uppercase());
        let safe = self.flags[key].as_str().map(|url| {
            database::without_password(url, &format!("--{flag}"), &format!("FARMHAND_{variable}"))
        });
        if let Some(Err(why)) = safe {
            self.mistakes.push(why);
            return None;
        }
        let url = |url: &str| Ok(Some(url.to_owned()).filter(|url| !url.is_empty()));
        self.setting(key, url, || Ok(None))
    }

    fn labels(&mut self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        if let Some(table) = self.file.table("labels") {
            for (name, found) in table.values(text) {
                if name == NODE_LABEL {
                    let wrong = Wrong::new(OWN_LABEL, "remove it; `address` names the node");
                    self.sink.wrong(found.span, NODE_LABEL, wrong);
                }
                labels.insert(name, found.value);
            }
        }
        let in_env = self
            .env
            .get("FARMHAND_LABEL")
            .map(String::as_str)
            .unwrap_or_default();
        let written = in_env
            .split(',')
            .filter(|pair| !pair.trim().is_empty())
            .map(|pair| ("FARMHAND_LABEL", pair))
            .chain(self.args.label.iter().map(|pair| ("--label", pair.as_str())));
        for (from, pair) in written {
            match pair.split_once('=') {
                Some((key, _)) if key.trim() == NODE_LABEL => self.mistakes.push(format!(
                    "{from} \"{pair}\": {OWN_LABEL}; remove it, --address names the node"
                )),
                Some((key, value)) if !key.trim().is_empty() => {
                    labels.insert(key.trim().to_owned(), value.trim().to_owned());
                }
                _ => self
                    .mistakes
                    .push(format!("{from} \"{pair}\": a label is written key=value")),
            }
        }
        labels
    }
}
