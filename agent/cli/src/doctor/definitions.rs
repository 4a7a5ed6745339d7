//! Judging the login with which an agent changes definitions over the API.

use farmhand_store::StoreError;
use farmhand_store::logins::Login;

use super::{Check, Level};

/// What was found of it; `target` is where its URL leads.
pub(crate) fn judge(found: Result<(), StoreError>, target: &str) -> Check {
    let (why, fix) = match found {
        Ok(()) => return Check::ok("definitions' login", format!("{target} may change them")),
        Err(StoreError::NotReady { why, fix }) => (why, fix),
        Err(error) => (
            format!("{}: {target}: {error}", Login::Definitions.setting()),
            "name the same server and database as in FARMHAND_DATABASE_URL".to_owned(),
        ),
    };
    Check::bad(
        Level::Failure,
        "definitions' login",
        why,
        "over the API of an agent with this login no definition can be changed; all else of it goes on",
        fix,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_that_cannot_change_definitions_fails_with_the_reason_and_the_fix() {
        assert_eq!(judge(Ok(()), "db").level, Level::Ok);
        let unfit = StoreError::NotReady {
            why: "it has more rights".to_owned(),
            fix: "name another".to_owned(),
        };
        let check = judge(Err(unfit), "db");
        assert_eq!(
            (check.level, check.found.as_str()),
            (Level::Failure, "it has more rights")
        );
        assert_eq!(check.fix.as_deref(), Some("name another"));
        let check = judge(Err(StoreError::Unreachable("no such host".to_owned())), "db");
        assert!(
            check.found.contains("FARMHAND_DEFINITIONS_DATABASE_URL") && check.found.contains("no such host"),
            "{check:?}"
        );
    }
}
