//! Questions, asked on a terminal only.

use std::io::{self, BufRead, IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::Failure;

/// Whether there is somebody to ask.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks, and returns the line without its end.
pub(super) fn ask(question: &str) -> Result<String, Failure> {
    let mut err = io::stderr().lock();
    err.write_all(question.as_bytes())?;
    err.flush()?;
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        return Err(Failure::refused("no answer"));
    }
    Ok(answer.trim_end_matches(['\n', '\r']).to_owned())
}

/// As [`ask`], without showing what is typed.
pub(crate) fn ask_secret(question: &str) -> Result<String, Failure> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).map_err(io::Error::from)?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    quiet.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(&stdin, OptionalActions::Flush, &quiet).map_err(io::Error::from)?;
    let answer = ask(question);
    tcsetattr(&stdin, OptionalActions::Flush, &before).map_err(io::Error::from)?;
    answer
}

/// Asks on the terminal. Fails with `refused` unless the answer is yes, and with `unasked` when there is no terminal.
/// Errors: 4 when it is not agreed to.
pub(super) fn agree(question: &str, refused: &str, unasked: Failure) -> Result<(), Failure> {
    if !can_ask() {
        return Err(unasked.why("there is no terminal to confirm it on"));
    }
    if ask(&format!("{question} [y/N] "))?.eq_ignore_ascii_case("y") {
        return Ok(());
    }
    Err(Failure::refused(refused))
}

/// Has the name of what is at stake typed, or given with `--confirm` where there is no terminal.
/// Errors: 4 when it is not confirmed.
pub(super) fn confirm(danger: &str, name: &str, given: Option<&str>) -> Result<(), Failure> {
    let typed = match given {
        Some(given) => given.to_owned(),
        None if can_ask() => ask(&format!("{danger}\nType \"{name}\" to go on: "))?,
        None => {
            return Err(Failure::refused(danger)
                .why("there is no terminal to confirm it on")
                .next(format!("add --confirm \"{name}\" if that is what you want")));
        }
    };
    if typed == name {
        return Ok(());
    }
    Err(Failure::refused("nothing was done").why(format!("\"{typed}\" is not \"{name}\"")))
}
