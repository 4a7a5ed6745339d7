//! Whether statements that are sent again and again are answered.

/// Of one kind of statement.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// One was sent, and none has been answered since.
    owed: bool,
    /// So it was at the last renewal.
    owed_before: bool,
}

impl Answers {
    pub(crate) fn sent(&mut self) {
        self.owed = true;
    }

    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Asked at each renewal: whether one was owed at the last renewal, and none has been answered since.
    pub(crate) fn fails(&mut self) -> bool {
        std::mem::replace(&mut self.owed_before, self.owed) && self.owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_from_one_renewal_to_the_next_fails_until_one_is_answered() {
        let mut claims = Answers::default();
        assert!(!claims.fails() && !claims.fails());
        claims.sent();
        assert!(!claims.fails() && claims.fails() && claims.fails());
        claims.answered();
        assert!(!claims.fails());
        claims.sent();
        assert!(!claims.fails());
        claims.answered();
        claims.sent();
        assert!(!claims.fails());
    }
}
