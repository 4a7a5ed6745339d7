//! "Did you mean".

/// Longer words are no slip of the finger. Others may send one of any length, and a comparison takes as long as the product of both.
const LONGEST: usize = 200;

/// The candidate nearest to `word`, when it is near enough to be a slip of the finger.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = (length / 3).max(1);
    candidates
        .into_iter()
        // What differs more in its length is further away.
        .filter(|c| length <= LONGEST && c.chars().count().abs_diff(length) <= limit)
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

    #[test]
    fn a_word_of_a_mebibyte_is_compared_with_nothing() {
        let word = "team-a.".repeat(150_000);
        let names = vec!["team-a.backup"; 10_000];
        let begun = std::time::Instant::now();
        assert_eq!(closest(&word, names), None);
        assert_eq!(closest(&word, [format!("{word}x").as_str()]), None);
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }
}
