//! `farmhand man`: the manual pages, one for each command.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use super::exit::EXIT_CODES;
use super::{Exit, Failure, Outcome, out};

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Where the pages go; it is made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn run(args: &ManArgs, as_json: bool, mut root: Command) -> Outcome {
    let failed = |error: std::io::Error| {
        Failure::broken(format!("the pages cannot be written to {}", args.dir.display())).why(error)
    };
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    root.build();
    let mut written = Vec::new();
    write(&root, args, &mut written).map_err(failed)?;
    if as_json {
        out::json(&written);
    } else {
        out::note(&format!("{} pages in {}", written.len(), args.dir.display()));
    }
    Ok(Exit::Ok)
}

fn write(command: &Command, args: &ManArgs, written: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut shown = command.clone();
    // The page of all commands has them, with the environment.
    if shown.get_after_long_help().is_none() {
        let own = shown.get_after_help().map(|text| format!("{text}\n\n"));
        shown = shown.after_long_help(own.unwrap_or_default() + EXIT_CODES);
    }
    let page = Man::new(shown).manual("Farmhand");
    written.push(page.generate_to(&args.dir)?);
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write(below, args, written)?;
    }
    Ok(())
}
