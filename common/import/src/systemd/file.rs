//! A timer, and the service that it starts.

use super::specifiers::Specifiers;
use super::unit::Unit;

/// A unit file.
#[derive(Clone, Debug)]
pub struct File {
    /// As people know it: its path.
    pub name: String,
    /// The unit: `backup@home.timer`, whichever file it is read from.
    pub unit: String,
    /// What it says; nothing if it is masked.
    pub text: String,
    /// What is known of it beside its text, to be told with what is said of it.
    pub notes: Vec<String>,
}

impl File {
    /// It lies where the units of users do, or is enabled there: in /usr/lib/systemd/user, ~/.config/systemd/user and their like.
    pub(super) fn of_user(&self) -> bool {
        let mut dirs = std::path::Path::new(&self.name).ancestors().skip(1).take(2);
        dirs.any(|dir| dir.ends_with("systemd/user"))
    }
}

/// A timer, and the service that it starts.
#[derive(Clone, Debug)]
pub struct Timer {
    pub timer: File,
    /// The unit that it starts, if there is one.
    pub service: Option<File>,
}

/// The service that a timer starts: the one it names, or the one of its own name.
pub fn service_of(timer: &File) -> String {
    let unit = Unit::parse(&timer.text);
    match unit.last("Timer", "Unit") {
        Some(entry) => {
            Specifiers::of(&timer.unit, timer.of_user())
                .expand(&entry.value)
                .0
        }
        None => format!("{}.service", timer.unit.trim_end_matches(".timer")),
    }
}
