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

/// Optimal string alignment distance (Levenshtein plus swaps of neighbours), ASCII case and `-`/`_` ignored.
fn distance(a: &str, b: &str) -> usize {
    let fold = |s: &str| -> Vec<char> {
        s.chars()
            .map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() })
            .collect()
    };
    let (a, b) = (fold(a), fold(b));
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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
