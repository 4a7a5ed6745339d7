//! "Did you mean".

/// The candidate nearest to `word`, when it is near enough to be a slip of the finger.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|c| (distance(word, c), c))
        .filter(|(d, _)| *d <= limit)
        .min()
        .map(|(_, c)| c)
}

/// Swapped neighbours count as one slip; ASCII case and `-`/`_` are ignored.
fn distance(a: &str, b: &str) -> usize {
    let fold = |s: &str| s.to_ascii_lowercase().replace('-', "_");
    strsim::osa_distance(&fold(a), &fold(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognized_and_another_word_is_not() {
        let keys = ["command", "schedule", "timeout", "timezone", "user"];
        assert_eq!(closest("comand", keys), Some("command"));
        assert_eq!(closest("shcedule", keys), Some("schedule"));
        assert_eq!(closest("Time-Out", keys), Some("timeout"));
        assert_eq!(closest("usre", keys), Some("user"));
        assert_eq!(closest("elephant", keys), None);
    }
}
