//! Time to percent.

use jiff::{SignedDuration, Timestamp};

use super::Tick;

/// Room for what begins now, as a share of the window.
const AHEAD: f64 = 0.02;

/// Distances between ticks, in seconds.
const STEPS: [i64; 15] = [
    5, 10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400,
];
const TICKS: i64 = 7;

#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub from: Timestamp,
    pub now: Timestamp,
    seconds: f64,
}

impl Scale {
    pub fn new(now: Timestamp, window: SignedDuration) -> Self {
        let window = window.max(SignedDuration::from_secs(1));
        Self {
            from: now.checked_sub(window).unwrap_or(Timestamp::MIN),
            now,
            seconds: window.as_secs_f64() * (1.0 + AHEAD),
        }
    }

    /// Percent of the width; never outside of it.
    pub fn x(&self, at: Timestamp) -> f64 {
        let share = at.duration_since(self.from).as_secs_f64() / self.seconds;
        (share * 100.0).clamp(0.0, 100.0)
    }

    pub fn ticks(&self) -> Vec<Tick> {
        let window = self.now.duration_since(self.from).as_secs().max(1);
        let step = STEPS
            .into_iter()
            .find(|s| window / s <= TICKS)
            .unwrap_or(86_400 * (window / 86_400 / TICKS + 1));
        let first = self.from.as_second().div_euclid(step) + 1;
        (first..)
            .map(|n| (n, n * step))
            .take_while(|(_, second)| *second <= self.now.as_second())
            .filter_map(|(n, second)| {
                let at = Timestamp::from_second(second).ok()?;
                let form = match step {
                    ..60 => "%H:%M:%S",
                    60..86_400 => "%H:%M",
                    _ => "%b %d",
                };
                Some(Tick {
                    x: self.x(at),
                    text: at.strftime(form).to_string(),
                    minor: n % 2 != 0,
                })
            })
            .collect()
    }
}
