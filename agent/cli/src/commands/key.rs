//! `farmhand key`: what definitions are signed with.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Failure, Outcome, out};
use farmhand_policy::trust::PrivateKey;

#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand, Debug)]
enum KeyCommand {
    /// Make a key to sign job definitions with; prints the line for the nodes' list of trusted keys
    New {
        /// Who signs with it, in one word
        name: String,
        /// The file of the private key, for its owner alone [default: NAME.key]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the public line of a private key
    Public {
        /// The file of the private key
        file: PathBuf,
    },
}

pub(super) fn run(args: &KeyArgs, as_json: bool) -> Outcome {
    let (key, file) = match &args.command {
        KeyCommand::New { name, output } => {
            let file = output
                .clone()
                .unwrap_or_else(|| PathBuf::from(format!("{name}.key")));
            let made = PrivateKey::create(name, &file);
            let key = made.map_err(|why| Failure::broken("no key was made").why(why))?;
            out::note(&format!(
                "the private key is in {}: keep it from everybody else, and off the nodes",
                file.display()
            ));
            (key, file)
        }
        KeyCommand::Public { file } => (read(file)?, file.clone()),
    };
    let line = key.public().line();
    let told = json!({"name": key.name(), "file": file, "public": line});
    out::done(as_json, &told, &line)
}

/// The key of a file.
/// Errors: 2 when it is none.
pub(super) fn read(file: &std::path::Path) -> Result<PrivateKey, Failure> {
    PrivateKey::read(file).map_err(|why| {
        Failure::usage("the private key cannot be used")
            .why(why)
            .next("`farmhand key new NAME` makes one")
    })
}
