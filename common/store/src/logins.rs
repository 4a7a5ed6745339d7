//! Logins that an agent has besides its own, for what its own may not do: whether each is the one that it should be.

use serde::Deserialize;
use tokio_postgres::types::Type;

use super::db::{Db, stmt};
use super::error::{StoreError, quoted};
pub use super::password::Login;
use super::roles::{KINDS, OPERATOR, ROWS};

impl Login {
    /// The role that it is a member of, as its name ends.
    fn kind(self) -> &'static str {
        match self {
            Self::Own => "agent",
            Self::Rows => ROWS,
            Self::Definitions => OPERATOR,
        }
    }

    /// What follows from its having more rights.
    fn too_much(self) -> &'static str {
        match self {
            Self::Own => "agents never need that",
            Self::Rows => "whoever owns the table of a table job would have them",
            Self::Definitions => "whoever takes the agent over would have them",
        }
    }
}

/// Whether `db`, which is logged in as `of`, is on the database of `farm` and may do what it is for, and nothing else.
/// Errors: `NotReady` says what is wrong with it; else the database is away.
pub async fn check(farm: &Db, db: &Db, of: Login) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    struct Rights {
        known: bool,
        role: String,
        member: bool,
        beyond: Option<String>,
    }
    let unfit = |why: &str, fix: &str| StoreError::NotReady {
        why: format!("{}: {why}", of.setting()),
        fix: fix.to_owned(),
    };
    let found: Result<Option<(String,)>, _> = db.row(stmt!("login_name"), &[]).await;
    let found = found.map_err(|error| match error {
        StoreError::Denied(_) | StoreError::PasswordMissing => unfit(
            &error.to_string(),
            &format!("check the URL and its password ({})", of.file()),
        ),
        other => other,
    })?;
    let (login,) = found.unwrap_or_default();
    let others: Vec<&str> = KINDS.into_iter().filter(|kind| *kind != of.kind()).collect();
    let rights: Option<Rights> = farm
        .row(
            stmt!("login_rights"),
            &[
                (&login, Type::TEXT),
                (&others, Type::TEXT_ARRAY),
                (&of.kind(), Type::TEXT),
            ],
        )
        .await?;
    let elsewhere = || {
        unfit(
            "it leads to another database than FARMHAND_DATABASE_URL",
            "name the same server and database in both",
        )
    };
    let Some(rights) = rights.filter(|r| r.known) else {
        return Err(elsewhere());
    };
    if let Some(beyond) = rights.beyond {
        let why = format!(
            "the login {login} has the rights of {beyond}, and {}",
            of.too_much()
        );
        let fix = format!(
            "name a login that is a member of {} and nothing else: CREATE ROLE … LOGIN PASSWORD '…' IN ROLE {}",
            rights.role, rights.role
        );
        return Err(unfit(&why, &fix));
    }
    if !rights.member {
        return Err(unfit(
            &format!("the login {login} is not a member of {}", rights.role),
            &format!(
                "as an administrator: GRANT {} TO {}; where that role is missing, first run `farmhand migrate`",
                rights.role,
                quoted(&login)
            ),
        ));
    }
    // Last: that of another database may not be asked for. Twice, since a failover may come between the two.
    for _ in 0..2 {
        let there = db.row::<(String,)>(stmt!("login_server"), &[]).await;
        let here = farm.row::<(String,)>(stmt!("login_server"), &[]).await?;
        match there {
            Ok(there) if there == here => return Ok(()),
            Err(away) if away.is_away() => return Err(away),
            _ => {}
        }
    }
    Err(elsewhere())
}
