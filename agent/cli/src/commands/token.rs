//! `farmhand token`: who may use the API and the page.

use std::time::Duration;

use clap::{Args, Subcommand};
use farmhand_core::document::parse_duration;
use farmhand_core::patterns::pattern;
use farmhand_core::text::shell_word;
use farmhand_store::tokens::{TokenRow, create_token, revoke_token, tokens};
use farmhand_store::{Db, Role};
use jiff::Timestamp;
use serde_json::json;

use super::{DatabaseArgs, Exit, Failure, Outcome, act, out};
use farmhand_web::auth::token;

/// Longest lifetime of a token.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    /// Make a token and print it, this once; the database keeps only its hash
    Create {
        /// Whose it is, or what for; it stands beside everything done with it
        #[arg(value_parser = name)]
        name: String,
        /// viewer sees; submitter also runs jobs; operator also cancels, retries, pauses, drains; admin also releases leases
        #[arg(long)]
        role: Role,
        /// The jobs that it may act on: a name, or how names begin, as in 'team-a.*'; may be repeated. It still sees all
        #[arg(long, value_name = "JOBS", value_parser = pattern)]
        jobs: Vec<String>,
        /// How long it is good, up to ten years
        #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = validity)]
        expires: Duration,
    },
    /// Those that are good
    #[command(alias = "list")]
    Ls {
        /// Expired and revoked ones too
        #[arg(long)]
        all: bool,
    },
    /// Take a token back; its browser sessions end with it
    Revoke { name: String },
}

fn name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let fits = (1..=100).contains(&text.len()) && text.chars().all(good);
    fits.then(|| text.to_owned())
        .ok_or_else(|| "write 1 to 100 letters, digits and - _ . @".to_owned())
}

fn validity(text: &str) -> Result<Duration, String> {
    let valid = parse_duration(text)?;
    if valid < Duration::from_secs(1) || valid > LONGEST {
        return Err("write a duration from 1s to ten years, as in 90d".to_owned());
    }
    Ok(valid)
}

pub(super) async fn run(args: &TokenArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    match &args.command {
        TokenCommand::Create {
            name,
            role,
            jobs,
            expires,
        } => {
            if !jobs.is_empty() && *role == Role::Viewer {
                return Err(
                    Failure::usage("a viewer only sees, and --jobs limits only what is done")
                        .next("leave --jobs out, or take --role submitter or operator"),
                );
            }
            let (text, row) = create(&db, name, (*role, jobs), *expires).await?;
            if as_json {
                out::json(
                    &json!({"token": text, "name": row.name, "role": row.role, "jobs": row.jobs, "expires_at": row.expires_at}),
                );
            } else {
                out::line(&text);
                out::note(&format!(
                    "{}: role {}, jobs {}, good until {}. It will not be shown again.",
                    row.name,
                    row.role,
                    named(row.jobs.as_deref()),
                    out::time(row.expires_at)
                ));
            }
        }
        TokenCommand::Ls { all } => return list(&tokens(&db, *all).await?, as_json),
        TokenCommand::Revoke { name } => {
            let acting = act::acting(&db, "token_revoke", &format!("token revoke {name}"));
            let row = revoke_token(&acting, name, &super::who()).await?;
            let row = row.ok_or_else(|| {
                Failure::not_found(format!("there is no token {name} to revoke"))
                    .next("`farmhand token ls` shows the tokens")
            })?;
            let text = format!("{name}: revoked; it does nothing more, and sees nothing more after 2 s");
            return out::done(as_json, &row, &text);
        }
    }
    Ok(Exit::Ok)
}

/// Makes a token; the text is nowhere but in the answer.
/// Errors: 4 when a good token has the name.
pub(super) async fn create(
    db: &Db,
    name: &str,
    may: (Role, &[String]),
    expires: Duration,
) -> Result<(String, TokenRow), Failure> {
    let no_randomness = |_| Failure::broken("the operating system has no randomness");
    let text = token::fresh().map_err(no_randomness)?;
    let hash = token::hash(&text).ok_or_else(|| Failure::broken("the new token is none"))?;
    let mut what = format!("token create {name} --role {}", may.0);
    may.1
        .iter()
        .for_each(|jobs| what.push_str(&format!(" --jobs {}", shell_word(jobs))));
    let acting = act::acting(db, "token_create", &what);
    let made = create_token(&acting, name, may, &hash, expires, &super::who()).await?;
    let row = made.ok_or_else(|| {
        Failure::refused(format!("there is a token {name} already")).next(format!(
            "choose another name, or `farmhand token revoke {name}` first"
        ))
    })?;
    Ok((text, row))
}

/// The jobs of a token, for people.
pub(super) fn named(jobs: Option<&[String]>) -> String {
    jobs.map_or_else(|| "all".to_owned(), |jobs| jobs.join(" "))
}

fn list(rows: &[TokenRow], as_json: bool) -> Outcome {
    let now = Timestamp::now();
    let cells = |row: &TokenRow| {
        let state = match row.revoked_at {
            Some(_) => "revoked",
            None if row.expires_at <= now => "expired",
            None => "good",
        };
        vec![
            row.name.clone(),
            row.role.to_string(),
            named(row.jobs.as_deref()),
            state.to_owned(),
            out::time(row.expires_at),
            out::maybe_time(row.last_used_at),
            out::time(row.created_at),
            row.created_by.clone(),
        ]
    };
    let headers = "TOKEN|ROLE|JOBS|STATE|GOOD UNTIL|LAST USED|CREATED|BY";
    out::list(as_json, rows, headers, rows.iter().map(cells))
}
