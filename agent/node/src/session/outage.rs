//! What counts as an outage of the database. After one every stopwatch begins anew, so that nobody is ended for a silence
//! that was the database's.

use farmhand_store::StoreError;

/// Small statements that a database which is there answers in time: only these tell by their silence that it is away.
const TELLING: [&str; 2] = ["look", "renew"];

/// Whether this failure of `op` says that the database is away. A statement that merely takes long, on a user's table
/// perhaps, does not: dead neighbours would never be taken over from as long as it does.
pub(super) fn is_outage(op: &str, error: &StoreError) -> bool {
    match error {
        StoreError::TimedOut { .. } => TELLING.contains(&op),
        error => error.is_away(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_of_a_look_is_an_outage_and_a_slow_table_is_none() {
        for (op, outage) in [
            ("look", true),
            ("renew", true),
            ("dispatch_rows", false),
            ("fire", false),
            ("claim", false),
        ] {
            assert_eq!(is_outage(op, &StoreError::TimedOut { op: "" }), outage, "{op}");
            assert!(is_outage(op, &StoreError::Unreachable(String::new())), "{op}");
        }
        assert!(!is_outage("look", &StoreError::SchemaMissing));
    }
}
