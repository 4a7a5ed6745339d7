//! Whether two agents of one address are on one machine. Told to people; no decision uses it.

/// How the machine that holds an address is related to the one that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// One machine and one boot, or a copy that was made while it ran.
    Same,
    /// One machine id, two boots: while both are alive, one is a copy of the other.
    Copy,
    /// Another machine's.
    Other,
}

impl Relation {
    /// Compares two identities of the form `MACHINE/BOOT`; None where one of them is not known.
    pub fn between(own: Option<&str>, other: Option<&str>) -> Option<Self> {
        let (own, own_boot) = own?.split_once('/')?;
        let (other, other_boot) = other?.split_once('/')?;
        Some(match (own == other, own_boot == other_boot) {
            (true, true) => Self::Same,
            (true, false) => Self::Copy,
            // Containers of one machine may have machine ids of their own.
            (false, true) => Self::Same,
            (false, false) => Self::Other,
        })
    }

    /// Follows the name of a session in a sentence.
    pub fn of_the_holder(self) -> &'static str {
        match self {
            Self::Same => " on this machine, or on a copy of it that was made while it ran",
            Self::Copy => " on a machine with this one's machine id: one is a copy of the other",
            Self::Other => " on another machine",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_boots_of_one_machine_id_are_copies_and_what_is_unknown_is_not_compared() {
        let between = |own, other| Relation::between(Some(own), Some(other));
        assert_eq!(between("m/1", "m/1"), Some(Relation::Same));
        assert_eq!(between("m/1", "m/2"), Some(Relation::Copy));
        assert_eq!(between("m/1", "k/1"), Some(Relation::Same));
        assert_eq!(between("m/1", "k/2"), Some(Relation::Other));
        assert_eq!(between("m", "m/1"), None);
        assert_eq!(Relation::between(None, Some("m/1")), None);
    }
}
