//! Commands that documents show: each subcommand and each option exists. `docs/reference/options.md` is written from the parser.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};
use farmhand::commands::Cli;

fn parser() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

/// Calls of `farmhand` in a document: lines of code blocks, and what stands between backquotes.
fn calls(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            found.extend(call(line.trim_start().trim_start_matches("$ ")));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).filter_map(call));
        }
    }
    found
}

/// The words from `farmhand` on, when nothing but assignments of variables stands before it.
fn call(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip_while(|word| word.contains('='));
    (words.next() == Some("farmhand")).then(|| words.collect::<Vec<_>>().join(" "))
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or(word);
    command
        .get_arguments()
        .find(|argument| match name.strip_prefix("--") {
            Some(long) => {
                argument.get_long() == Some(long)
                    || argument.get_all_aliases().unwrap_or_default().contains(&long)
            }
            None => argument.get_short() == name.chars().nth(1),
        })
}

/// What of a call the parser does not know.
fn unknown(root: &Command, call: &str) -> Option<String> {
    let mut command = root;
    let mut words = call.split_whitespace();
    while let Some(word) = words.next() {
        if ["--", "|", "||", "&&", ">", "<"].contains(&word) || word.starts_with('#') {
            return None;
        }
        let ends = word.ends_with(';');
        let word = word.trim_matches(['[', ']', ';', ',', '…']);
        if word.starts_with('-') && word.len() > 1 {
            match option(command, word) {
                Some(argument) if takes_value(argument) && !word.contains('=') => _ = words.next(),
                Some(_) => {}
                None => return Some(format!("`{}` has no option {word}", command.get_name())),
            }
        } else if command.has_subcommands()
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !word.is_empty()
        {
            match command.find_subcommand(word) {
                Some(below) => command = below,
                None if command.get_positionals().next().is_some()
                    || command.is_allow_external_subcommands_set() =>
                {
                    return None;
                }
                None => return Some(format!("`{}` has no command {word}", command.get_name())),
            }
        }
        if ends {
            return None;
        }
    }
    None
}

#[test]
fn every_command_in_a_document_exists_with_its_options() {
    let root = parser();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for document in super::documents::documents() {
        // It names what was removed, too.
        if document == "CHANGELOG.md" {
            continue;
        }
        for call in calls(&super::read(&document)) {
            seen += 1;
            wrong.extend(unknown(&root, &call).map(|what| format!("{document}: farmhand {call}: {what}")));
        }
    }
    assert!(wrong.is_empty(), "fix these documents:\n{}", wrong.join("\n"));
    assert!(seen > 100, "only {seen} commands were found");
}

#[test]
fn unknown_commands_and_options_are_found() {
    let root = parser();
    for (call, wrong) in [
        ("job apply x.toml --prune", false),
        ("job aply x.toml", true),
        ("job apply --prunes x.toml", true),
        ("run logs 3 -f | head", false),
        ("run logs 3 -Z", true),
        ("node drain n1 --deadline 10m --wait", false),
        ("job apply x # --this is a comment", false),
    ] {
        assert_eq!(unknown(&root, call).is_some(), wrong, "{call}");
    }
    let text = "Use `farmhand status`.\n```\n$ farmhand job ls\nA=b farmhand migrate\nfarmhander\n```\n";
    assert_eq!(calls(text), ["status", "job ls", "migrate"]);
}

/// One command and all below it, as Markdown.
fn describe(command: &Command, path: &str, page: &mut String) {
    if !path.is_empty() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        _ = writeln!(page, "\n## {path}\n\n{about}\n");
        let shown = |a: &&Arg| {
            !a.is_hide_set() && !a.is_global_set() && a.get_id() != "help" && a.get_id() != "version"
        };
        for argument in command.get_arguments().filter(shown) {
            let value = argument.get_value_names().unwrap_or_default().join(" ");
            let name = match (argument.get_short(), argument.get_long()) {
                (Some(short), Some(long)) => format!("-{short}, --{long}"),
                (None, Some(long)) => format!("--{long}"),
                _ => String::new(),
            };
            let value = if takes_value(argument) {
                format!(" {value}")
            } else {
                String::new()
            };
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            _ = writeln!(page, "- `{}`: {help}", format!("{name}{value}").trim());
        }
    }
    for below in command
        .get_subcommands()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help")
    {
        describe(below, format!("{path} {}", below.get_name()).trim(), page);
    }
}

#[test]
fn the_page_of_options_is_the_parsers() {
    let mut page = "# Commands and options\n\nThis page is written from the program: `FARMHAND_BLESS=1 cargo nextest run -p farmhand-tests \
                    --test repo the_page_of_options`.\n[Commands](commands.md) explains them and shows examples. `--json`, `--database-url` and \
                    `--help` work on each.\n"
        .to_owned();
    describe(&parser(), "", &mut page);
    let path = super::root().join("docs/reference/options.md");
    if std::env::var_os("FARMHAND_BLESS").is_some() {
        std::fs::write(&path, &page).expect("a page of the repository");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/reference/options.md is not what the parser says: run this test once with FARMHAND_BLESS=1 and commit the page"
    );
}
