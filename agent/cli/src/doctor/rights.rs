//! Judging who may do what in the database, and what is too much.

use farmhand_store::roles::{KINDS, creating};
use farmhand_store::survey::Rights;

use super::{Check, Level};

/// `exposed`: the connection is neither on this machine nor under TLS.
pub(crate) fn judge(rights: &Rights, target: &str, exposed: bool) -> Vec<Check> {
    vec![
        encryption(target, exposed),
        roles(rights),
        agents(rights),
        public(rights),
        functions(rights),
        search_path(rights),
    ]
}

fn encryption(target: &str, exposed: bool) -> Check {
    if !exposed {
        return Check::ok("encryption", "TLS with the server verified, or on this machine");
    }
    Check::bad(
        Level::Warning,
        "encryption",
        format!("{target} is reached without TLS (sslmode=disable)"),
        "whoever is in between reads what jobs print and can have agents run anything",
        "give the server a certificate and say sslmode=verify-full",
    )
}

fn roles(rights: &Rights) -> Check {
    if rights.missing.is_empty() && rights.submitter {
        let found = format!("{}_{} are there", rights.prefix, KINDS.join(", _"));
        return Check::ok("roles", found);
    }
    if rights.missing.is_empty() {
        return Check::bad(
            Level::Note,
            "roles",
            format!("{}_submitter may not submit", rights.prefix),
            "only the schema's owner can call farmhand.submit",
            "run `farmhand migrate`: it gives the rights",
        );
    }
    Check::bad(
        Level::Note,
        "roles",
        format!("missing: {}", rights.missing.join(", ")),
        "whoever needs these rights has to be given the owner's",
        format!(
            "as an administrator: {} Then `farmhand migrate`.",
            creating(&rights.missing)
        ),
    )
}

fn agents(rights: &Rights) -> Check {
    if !rights.wide_agents.is_empty() {
        return Check::bad(
            Level::Warning,
            "agents' rights",
            format!("agents are logged in as {}", rights.wide_agents.join(", ")),
            "whoever gets hold of such a login can have every node run anything",
            format!(
                "CREATE ROLE … LOGIN PASSWORD '…' IN ROLE {}_agent; and name it in the agents' URL",
                rights.prefix
            ),
        );
    }
    if rights.owner_is_superuser {
        return Check::bad(
            Level::Note,
            "agents' rights",
            format!("the schema belongs to {}, a superuser", rights.owner),
            "functions that run with the owner's rights run with a superuser's",
            format!("REASSIGN OWNED, or ALTER … OWNER TO {}_owner", rights.prefix),
        );
    }
    Check::ok(
        "agents' rights",
        "no agent is logged in that can change definitions",
    )
}

fn public(rights: &Rights) -> Check {
    if rights.open_to_all.is_empty() {
        return Check::ok("public rights", "none in the schema farmhand");
    }
    Check::bad(
        Level::Warning,
        "public rights",
        format!("everybody has rights on {}", rights.open_to_all.join(", ")),
        "any login of this database may do what only the farm's roles should",
        "run `farmhand migrate`: it takes them away",
    )
}

fn functions(rights: &Rights) -> Check {
    if rights.loose_functions.is_empty() {
        return Check::ok("functions", "all say where they look for names");
    }
    Check::bad(
        Level::Warning,
        "functions",
        format!(
            "without a fixed search_path: {}",
            rights.loose_functions.join(", ")
        ),
        "what lies in a caller's path can be run in place of what is meant",
        "ALTER FUNCTION … SET search_path = pg_catalog, pg_temp; functions of your own belong into another schema",
    )
}

fn search_path(rights: &Rights) -> Check {
    if rights.open_schemas.is_empty() {
        return Check::ok("search path", "nobody but owners can put anything into it");
    }
    let each: Vec<String> = (rights.open_schemas.iter())
        .map(|schema| format!("REVOKE CREATE ON SCHEMA \"{schema}\" FROM PUBLIC;"))
        .collect();
    Check::bad(
        Level::Warning,
        "search path",
        format!(
            "everybody may create objects in {}",
            rights.open_schemas.join(", ")
        ),
        "an operator or function there can be run with an agent's rights",
        each.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Rights {
        Rights {
            prefix: "farmhand".into(),
            missing: Vec::new(),
            submitter: true,
            owner: "farmhand_owner".into(),
            owner_is_superuser: false,
            wide_agents: Vec::new(),
            open_to_all: Vec::new(),
            loose_functions: Vec::new(),
            open_schemas: Vec::new(),
        }
    }

    fn level(check: &str, exposed: bool, change: impl Fn(&mut Rights)) -> Level {
        let mut rights = good();
        change(&mut rights);
        let checks = judge(&rights, "db:5432/farm", exposed);
        checks.into_iter().find(|c| c.check == check).unwrap().level
    }

    #[test]
    fn what_is_as_it_should_be_is_ok() {
        assert_eq!(super::super::worst(&judge(&good(), "db", false)), Level::Ok);
    }

    #[test]
    fn what_is_too_wide_is_a_warning_and_what_is_missing_a_note() {
        let one = || vec!["x".to_owned()];
        assert_eq!(level("encryption", true, |_| {}), Level::Warning);
        assert_eq!(level("roles", false, |r| r.missing = one()), Level::Note);
        assert_eq!(level("roles", false, |r| r.submitter = false), Level::Note);
        assert_eq!(
            level("agents' rights", false, |r| r.wide_agents = one()),
            Level::Warning
        );
        assert_eq!(
            level("agents' rights", false, |r| r.owner_is_superuser = true),
            Level::Note
        );
        assert_eq!(
            level("public rights", false, |r| r.open_to_all = one()),
            Level::Warning
        );
        assert_eq!(
            level("functions", false, |r| r.loose_functions = one()),
            Level::Warning
        );
        assert_eq!(
            level("search path", false, |r| r.open_schemas = one()),
            Level::Warning
        );
    }
}
