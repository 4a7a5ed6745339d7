//! What a command line does beside its command, as far as its text tells without a shell.

use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guarded {
    pub file: String,
    /// `-n`: what finds the lock taken is left out. Without it, it waits.
    pub left_out: bool,
    pub command: String,
}

/// The command without the `&` at its end.
pub(super) fn foreground(command: &str) -> Option<&str> {
    let rest = command.strip_suffix('&')?;
    let single = !rest.ends_with(['&', '\\', '>', '|']);
    Some(rest.trim_end()).filter(|rest| single && !rest.is_empty())
}

/// What puts work in the background, or is there for that: an operator, or the name of a program.
pub(super) fn background(command: &str, bash: bool) -> Option<&'static str> {
    let (mut quote, mut chars) = (None, command.chars().peekable());
    let (mut before, mut simple) = (' ', String::new());
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => drop(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('&', None) if chars.next_if_eq(&'&').is_none() && before != '>' && before != '<' => {
                match chars.peek() {
                    Some('>') if bash => {}
                    Some('>') => return Some("&>"),
                    _ if bash && before == '|' => {}
                    _ => return Some("&"),
                }
            }
            ('&' | ';' | '|' | '(' | ')' | '{' | '}' | '\n', None) => {
                if let Some(found) = daemonizes(&std::mem::take(&mut simple)) {
                    return Some(found);
                }
            }
            _ => {}
        }
        before = c;
        simple.push(if quote.is_none() && "&;|(){}\n".contains(c) {
            ' '
        } else {
            c
        });
    }
    daemonizes(&simple)
}

/// The program of a simple command that goes on in the background, or is there to.
fn daemonizes(simple: &str) -> Option<&'static str> {
    const BEFORE: &[&str] = &[
        "!", "if", "then", "else", "elif", "do", "while", "until", "exec", "command", "env", "nice",
        "ionice", "time", "sudo", "doas", "test",
    ];
    let mut words = simple
        .split_whitespace()
        .skip_while(|word| BEFORE.contains(&base(word)) || word.starts_with('-') || word.contains('='));
    let program = base(words.next()?);
    let rest: Vec<&str> = words.collect();
    let detached = rest.iter().any(|word| word.starts_with("-d"));
    match program {
        "nohup" => Some("nohup"),
        "setsid" => Some("setsid"),
        "start-stop-daemon" => Some("start-stop-daemon"),
        "screen" if detached => Some("screen -d"),
        "tmux" if detached && rest.iter().any(|word| word.starts_with("new")) => Some("tmux new -d"),
        "service" if matches!(rest[..], [_, "start" | "restart", ..]) => Some("service"),
        _ => None,
    }
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Where the output goes: the file behind `>` or `>>` that is neither /dev/null nor another stream.
pub(super) fn redirected(command: &str) -> Option<String> {
    let (mut quote, mut chars) = (None, command.char_indices().peekable());
    while let Some((_, c)) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => drop(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('>', None) => {
                while chars.next_if(|(_, c)| *c == '>' || *c == '|').is_some() {}
                while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
                let at = chars.peek().map_or(command.len(), |(at, _)| *at);
                let file = &command[at..];
                let end = file.find(|c: char| c.is_whitespace() || ";|&<>()".contains(c));
                let file = file[..end.unwrap_or(file.len())].trim_matches(['"', '\'']);
                if !file.is_empty() && file != "/dev/null" {
                    return Some(file.to_owned());
                }
            }
            _ => {}
        }
    }
    None
}

/// A line that is `flock [-n] FILE COMMAND` and nothing else.
pub(super) fn guarded(command: &str) -> Option<Guarded> {
    let (program, mut rest) = word(command);
    if program.rsplit('/').next() != Some("flock") {
        return None;
    }
    let mut left_out = false;
    loop {
        let (option, after) = word(rest);
        match option {
            "-n" | "--nb" | "--nonblock" | "-xn" | "-nx" | "-en" | "-ne" => left_out = true,
            "-x" | "-e" | "--exclusive" => {}
            _ => break,
        }
        rest = after;
    }
    let (file, rest) = word(rest);
    let (flag, inner) = word(rest);
    let command = match flag {
        "-c" | "--command" => {
            let quote = inner.chars().next().filter(|c| ['\'', '"'].contains(c))?;
            let inner = inner.strip_prefix(quote)?.strip_suffix(quote)?;
            // What the quotes hid from this shell, the one that `-c` starts reads.
            Some(inner).filter(|inner| !inner.contains([quote, '\\', '$', '`']))?
        }
        _ => rest,
    };
    let alone =
        flag == "-c" || flag == "--command" || !command.replace("2>&1", "").contains([';', '|', '&', '\n']);
    let odd =
        |text: &str| text.is_empty() || text.starts_with('-') || text.contains(['$', '"', '\'', '`', '(']);
    (alone && !odd(file) && !command.trim().is_empty() && !command.starts_with('-')).then(|| Guarded {
        file: file.to_owned(),
        left_out,
        command: command.trim().to_owned(),
    })
}

/// What may be the name of a file in it.
pub(super) fn words(command: &str) -> BTreeSet<&str> {
    let ends = |c: char| c.is_whitespace() || "\"'`;|&()<>=".contains(c);
    command.split(ends).filter(|word| !word.is_empty()).collect()
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ampersand_at_the_end_is_taken_off() {
        for (command, wanted) in [
            ("daemon --x &", Some("daemon --x")),
            ("daemon&", Some("daemon")),
            ("a && b", None),
            ("a &&", None),
            ("a \\&", None),
            ("a >&", None),
            ("&", None),
        ] {
            assert_eq!(foreground(command), wanted, "{command}");
        }
    }

    #[test]
    fn the_file_that_output_goes_to_is_found() {
        for (command, wanted) in [
            ("a >> /var/log/a.log 2>&1", Some("/var/log/a.log")),
            ("a >/tmp/x; b", Some("/tmp/x")),
            ("a > \"/tmp/x\"", Some("/tmp/x")),
            ("a 2>> ~/err", Some("~/err")),
            ("a >/dev/null 2>&1", None),
            ("a > /dev/null 2>/tmp/err", Some("/tmp/err")),
            ("echo 'a > b'", None),
            ("echo a\\>b", None),
            ("a", None),
            ("a >", None),
        ] {
            assert_eq!(redirected(command).as_deref(), wanted, "{command}");
        }
    }

    #[test]
    fn a_command_that_flock_guards_is_found() {
        let found = |command: &str| guarded(command).map(|g| (g.file, g.left_out, g.command));
        let some =
            |file: &str, left_out, command: &str| Some((file.to_owned(), left_out, command.to_owned()));
        for (command, wanted) in [
            (
                "flock -n /tmp/a.lock backup --all",
                some("/tmp/a.lock", true, "backup --all"),
            ),
            (
                "/usr/bin/flock -xn /tmp/a backup >> log 2>&1",
                some("/tmp/a", true, "backup >> log 2>&1"),
            ),
            ("flock /tmp/a backup", some("/tmp/a", false, "backup")),
            (
                "flock -n /tmp/a -c 'cd /x && backup'",
                some("/tmp/a", true, "cd /x && backup"),
            ),
            ("flock -n /tmp/a -c \"echo $HOME\"", None),
            ("flock -w 10 /tmp/a backup", None),
            ("flock -n /tmp/a backup; other", None),
            ("flock -n $LOCK backup", None),
            ("flock -n /tmp/a", None),
            ("nice flock -n /tmp/a backup", None),
            ("backup", None),
        ] {
            assert_eq!(found(command), wanted, "{command}");
        }
    }
}
