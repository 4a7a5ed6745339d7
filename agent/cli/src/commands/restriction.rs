//! `farmhand restriction`: which jobs a login of the database may act on.

use clap::{Args, Subcommand};
use farmhand_store::restrictions::{self, Restriction, restrictions};
use serde_json::json;

use super::{DatabaseArgs, Failure, Outcome, out};

#[derive(Args, Debug)]
pub(crate) struct RestrictionArgs {
    #[command(subcommand)]
    command: RestrictionCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum RestrictionCommand {
    /// Logins and tokens that are restricted to some jobs
    #[command(alias = "list")]
    Ls,
    /// Restrict a login of the database to these jobs, in place of those of before; it still sees all
    Set {
        login: String,
        /// A job's name, or how names begin, as in 'team-a.*'
        #[arg(required = true, value_parser = restrictions::pattern)]
        jobs: Vec<String>,
    },
    /// Lift the restriction of a login
    Rm { login: String },
}

pub(super) async fn run(args: &RestrictionArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let (login, said) = match &args.command {
        RestrictionCommand::Ls => {
            return list(&restrictions(&db).await?, as_json);
        }
        RestrictionCommand::Set { login, jobs } => {
            restrictions::restrict(&db, login, jobs, &super::who()).await?;
            (login, format!("{login}: acts on {} alone", jobs.join(" ")))
        }
        RestrictionCommand::Rm { login } => {
            if !restrictions::lift(&db, login).await? {
                return Err(
                    Failure::not_found(format!("the login {login} is not restricted")).next(
                        "`farmhand restriction ls` shows who is; a token's ends with `farmhand token revoke`",
                    ),
                );
            }
            (
                login,
                format!("{login}: acts on all jobs that its role may act on"),
            )
        }
    };
    out::done(as_json, &json!({"login": login, "done": said}), &said)
}

fn list(rows: &[Restriction], as_json: bool) -> Outcome {
    let cells = |row: &Restriction| {
        vec![
            row.kind.clone(),
            row.name.clone(),
            row.jobs.join(" "),
            out::time(row.set_at),
            row.set_by.clone(),
        ]
    };
    out::list(as_json, rows, "KIND|NAME|JOBS|SET|BY", rows.iter().map(cells))
}
