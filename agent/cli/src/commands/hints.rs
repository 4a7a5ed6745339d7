//! Where words lead that people know from other tools.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A word typed as a command, and the command that does it.
const ELSEWHERE: [(&str, &str); 17] = [
    ("apply", "job apply"),
    ("cancel", "run cancel"),
    ("cordon", "node cordon"),
    ("drain", "node drain"),
    ("history", "job history"),
    ("jobs", "job ls"),
    ("kill", "run cancel"),
    ("log", "run logs"),
    ("logs", "run logs"),
    ("ls", "job ls"),
    ("nodes", "node ls"),
    ("pause", "job pause"),
    ("ps", "run ls"),
    ("resume", "job resume"),
    ("retry", "run retry"),
    ("runs", "run ls"),
    ("stop", "run cancel"),
];

/// Replaces a suggestion that only looks alike by the command that does what was asked for.
pub(super) fn correct(error: &mut clap::Error) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    if let Some((_, command)) = ELSEWHERE.iter().find(|(known, _)| known == word) {
        let instead = ContextValue::Strings(vec![(*command).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, instead);
    }
}
