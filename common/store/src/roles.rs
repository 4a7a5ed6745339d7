//! The roles of the database: made where that is allowed, and given exactly what `sql/roles_grant.sql` lists.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;

use super::db::{Db, Transaction, stmt};
use super::error::{StoreError, quoted};

/// What the roles' names begin with unless somebody chose otherwise.
pub const PREFIX: &str = "farmhand";

/// The six kinds, as their names end.
pub const KINDS: [&str; 6] = ["owner", "agent", "submitter", OPERATOR, "viewer", ROWS];

/// That of people who run the farm.
pub const OPERATOR: &str = "operator";

/// That of the login with which agents touch users' tables.
pub const ROWS: &str = "rows";

/// Every right that any of them has.
pub const LIST: &str = include_str!("sql/roles_grant.sql");

/// What `farmhand migrate` found and did about roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// What the names of the farm's roles begin with.
    pub prefix: String,
    /// Those that this cluster has not got, and that the migrating role may not make.
    pub missing: Vec<String>,
}

impl Roles {
    /// What an administrator runs when roles are missing; the grants are given by the next `farmhand migrate`.
    pub fn by_hand(&self) -> Option<String> {
        (!self.missing.is_empty()).then(|| creating(&self.missing))
    }
}

/// The statements that make these roles.
pub fn creating(missing: &[String]) -> String {
    let each: Vec<String> = (missing.iter())
        .map(|role| format!("CREATE ROLE {role} NOLOGIN;"))
        .collect();
    each.join(" ")
}

/// Whether this can begin the names of roles: a plain lower-case identifier of at most 40 characters.
pub(crate) fn is_prefix(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next();
    text.len() <= 40
        && first.is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[derive(Deserialize)]
struct Owner {
    owner: String,
    may: bool,
    alone: bool,
    fix: String,
}

/// The role to migrate as, when it is another than the one that is logged in: the schema's owner, or before there is
/// a schema the database's, if that is the farm's owner role and the login may act as it.
/// Errors: The schema is another's, and the login may not act as that role.
pub(super) async fn owner_to_be(tx: &mut Transaction, prefix: &str) -> Result<Option<String>, StoreError> {
    let owner = format!("{prefix}_owner");
    let found: Option<Owner> = tx.row(stmt!("roles_owner"), &[(&owner, Type::TEXT)]).await?;
    match found {
        Some(found) if found.may => Ok(Some(found.owner)),
        Some(found) if !found.alone => Err(StoreError::NotReady {
            why: format!(
                "the schema is to belong to {}, and this login may not act as it",
                found.owner
            ),
            fix: found.fix,
        }),
        _ => Ok(None),
    }
}

/// The statement that makes the rest of a transaction the owner's.
pub(super) fn become_owner(owner: &str) -> String {
    format!("SET LOCAL ROLE {}", quoted(owner))
}

/// Makes the roles that are missing, as whoever is logged in.
pub(super) async fn make(db: &Db, prefix: &str) -> Result<Roles, StoreError> {
    let mut tx = db.transaction("roles_make").await?;
    name(&mut tx, prefix).await?;
    tx.batch(include_str!("sql/roles_make.sql")).await?;
    let missing: Vec<(String,)> = tx.rows(stmt!("roles_missing"), &[]).await?;
    tx.commit().await?;
    Ok(Roles {
        prefix: prefix.to_owned(),
        missing: missing.into_iter().map(|(role,)| role).collect(),
    })
}

/// Gives and takes what the list says, in the caller's transaction, and remembers the prefix.
pub(super) async fn grant(tx: &mut Transaction, prefix: &str) -> Result<(), StoreError> {
    name(tx, prefix).await?;
    // The list still reads the prefix of before.
    tx.batch(LIST).await?;
    let _: Vec<Value> = tx
        .rows(stmt!("roles_prefix_set"), &[(&prefix, Type::TEXT)])
        .await?;
    Ok(())
}

/// What the names of this farm's roles begin with, once it has been migrated.
pub(super) async fn prefix(tx: &mut Transaction) -> Result<Option<String>, StoreError> {
    let known: Option<(bool,)> = tx.row(stmt!("roles_known"), &[]).await?;
    if !known.is_some_and(|(known,)| known) {
        return Ok(None);
    }
    let found: Option<(String,)> = tx.row(stmt!("roles_prefix"), &[]).await?;
    Ok(found.map(|(prefix,)| prefix))
}

/// Blocks of SQL take no parameters; a setting of the transaction hands the name over.
async fn name(tx: &mut Transaction, prefix: &str) -> Result<(), StoreError> {
    let kinds = KINDS.join(",");
    let _: Option<Value> = tx
        .row(
            stmt!("roles_name"),
            &[(&prefix, Type::TEXT), (&kinds, Type::TEXT)],
        )
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_plain_name() {
        for good in ["farmhand", "_x", "farm_2", &"a".repeat(40)] {
            assert!(is_prefix(good), "{good}");
        }
        for bad in [
            "",
            "2farm",
            "Farm",
            "a-b",
            "a\"; DROP ROLE b",
            "é",
            &"a".repeat(41),
        ] {
            assert!(!is_prefix(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_missing_is_said_as_sql() {
        let mut roles = Roles {
            prefix: "f".into(),
            missing: vec!["f_agent".into(), "f_viewer".into()],
        };
        assert_eq!(
            roles.by_hand().unwrap(),
            "CREATE ROLE f_agent NOLOGIN; CREATE ROLE f_viewer NOLOGIN;"
        );
        roles.missing.clear();
        assert_eq!(roles.by_hand(), None);
    }
}
