//! Durations in expressions, in seconds and in tests that have no hour to wait.

/// Divides every duration of the rules: `for`, ranges, and the thresholds written as `%(5m)`.
#[derive(Clone, Copy, Debug)]
pub struct Scale(pub u64);

impl Scale {
    pub const NONE: Self = Self(1);

    /// Scaled, and at least `least` seconds where there is scaling; 0 stays 0.
    fn of(self, duration: &str, least: u64) -> u64 {
        let whole = seconds(duration);
        match self.0 {
            1 => whole,
            by => (whole / by).max(least.min(whole)),
        }
    }

    /// How long a condition must hold.
    pub fn hold(self, duration: &str) -> String {
        format!("{}s", self.of(duration, 1))
    }

    /// An expression with its thresholds in seconds and its ranges as long as this scale makes them. A range
    /// keeps at least 5 s, for two scrapes on a busy machine.
    pub fn expression(self, text: &str) -> String {
        let thresholds = replace(text, "%(", ")", |d| self.of(d, 1).to_string());
        if self.0 == 1 {
            return thresholds;
        }
        replace(&thresholds, "[", "]", |d| format!("[{}s]", self.of(d, 5)))
    }
}

/// Seconds of `90s`, `5m`, `1h`.
///
/// # Panics
/// When it is no such duration.
pub fn seconds(duration: &str) -> u64 {
    let (digits, unit) = duration.split_at(duration.len() - 1);
    let per = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => panic!("{duration}: a duration in s, m or h"),
    };
    let n: u64 = digits
        .parse()
        .unwrap_or_else(|_| panic!("{duration}: a duration in s, m or h"));
    n * per
}

fn replace(text: &str, open: &str, close: &str, by: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(open);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inner, rest) = part
            .split_once(close)
            .unwrap_or_else(|| panic!("{open} without {close} in {text}"));
        out.push_str(&by(inner));
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_become_seconds_and_ranges_shrink_only_in_tests() {
        let text = "rate(a{b=\"c\"}[10m]) > %(5m)";
        assert_eq!(Scale::NONE.expression(text), "rate(a{b=\"c\"}[10m]) > 300");
        assert_eq!(Scale(60).expression(text), "rate(a{b=\"c\"}[10s]) > 5");
        assert_eq!(Scale(600).expression(text), "rate(a{b=\"c\"}[5s]) > 1");
        assert_eq!(
            (Scale(60).hold("30s"), Scale(60).hold("0s")),
            ("1s".into(), "0s".into())
        );
    }
}
