//! Wall clock to instants: what a clock change does to a schedule.
//!
//! The rule for `once` is Debian's cron(8). A job whose minute or hour field begins with `*` (an interval)
//! fires at every real minute whose local clock matches: nothing is made up in a gap, and it repeats in an
//! overlap. Any other job (a fixed time) whose time lies in a gap fires once, at the first instant after
//! the change; a repeated time fires only on its first occurrence. Larger changes are corrections of the
//! clock: the new time simply counts. `skip` and `both` change the fixed times only: `skip` drops what lies
//! in a gap, `both` also fires a repeated time's second occurrence.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::calendar::Closed;
use super::civil::DAY;
use super::cron::Cron;

crate::words! {
    /// What becomes of local times that a change of the clock makes twice.
    #[derive(Default)]
    DstPolicy {
        /// A skipped time runs right after, a repeated one the first time.
        #[default]
        Once = "once",
        /// A skipped time does not run, a repeated one runs the first time.
        Skip = "skip",
        /// A repeated time runs twice.
        Both = "both",
    }
}

/// cron treats a change as a correction of the clock when the new minute is more than 180 minutes from the
/// one it expected, which is one minute after the last: a gap of exactly three hours is a correction, an
/// overlap of exactly three hours is not.
const SMALL_GAP: i64 = 3 * 3600 - 1;
const SMALL_OVERLAP: i64 = 3 * 3600;

/// A stretch of time with one UTC offset. All in seconds.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: i64,
    end: i64,
    offset: i64,
    /// The offset in force before `start`; the same when nothing changed.
    before: i64,
}

/// The segments of a zone, remembering the last one used.
#[derive(Clone, Debug)]
pub(super) struct Segments<'a> {
    zone: &'a TimeZone,
    closed: &'a Closed,
    current: Option<Segment>,
}

impl<'a> Segments<'a> {
    pub(crate) fn new(zone: &'a TimeZone, closed: &'a Closed) -> Self {
        Self {
            zone,
            closed,
            current: None,
        }
    }

    /// The first instant at or after `from` at which the expression fires, in Unix seconds.
    pub fn fire_at_or_after(&mut self, cron: &Cron, dst: DstPolicy, from: i64) -> Option<i64> {
        let mut from = from;
        loop {
            let segment = self.containing(from)?;
            let change = segment.offset - segment.before;
            let fixed = !cron.wildcard;
            if from == segment.start && fixed && dst != DstPolicy::Skip && (1..=SMALL_GAP).contains(&change) {
                let missed = cron.at_or_after(segment.start + segment.before, self.closed)?;
                if missed < segment.start + segment.offset {
                    return Some(segment.start);
                }
            }
            let mut local = from + segment.offset;
            if fixed && dst != DstPolicy::Both && (1..=SMALL_OVERLAP).contains(&-change) {
                local = local.max(segment.start + segment.before);
            }
            let wall = cron.at_or_after(local, self.closed)?;
            if wall - segment.offset < segment.end {
                return Some(wall - segment.offset);
            }
            // Nothing matches between `local` and `wall`, so later segments can be passed over, unless the
            // next one turns the clock back behind `local`.
            let far = wall - 2 * DAY;
            from = if from + 2 * DAY < segment.end {
                segment.end.max(far)
            } else {
                segment.end
            };
        }
    }

    fn containing(&mut self, at: i64) -> Option<Segment> {
        let segment = match self.current {
            Some(s) if s.start <= at && at < s.end => return Some(s),
            Some(s) if s.end == at => {
                let offset = offset_at(self.zone, at)?;
                Segment {
                    start: at,
                    end: end_after(self.zone, at, offset),
                    offset,
                    before: s.offset,
                }
            }
            _ => segment_at(self.zone, at)?,
        };
        self.current = Some(segment);
        Some(segment)
    }
}

fn segment_at(zone: &TimeZone, at: i64) -> Option<Segment> {
    if let Ok(fixed) = zone.to_fixed_offset() {
        let offset = i64::from(fixed.seconds());
        return Some(Segment {
            start: i64::MIN,
            end: i64::MAX,
            offset,
            before: offset,
        });
    }
    let offset = offset_at(zone, at)?;
    let (start, before) = start_before(zone, at, offset);
    Some(Segment {
        start,
        end: end_after(zone, at, offset),
        offset,
        before,
    })
}

fn offset_at(zone: &TimeZone, at: i64) -> Option<i64> {
    Some(zone.to_offset(Timestamp::from_second(at).ok()?).seconds().into())
}

/// Where the offset next changes. Transitions that only rename the zone are passed over.
fn end_after(zone: &TimeZone, at: i64, offset: i64) -> i64 {
    let Ok(at) = Timestamp::from_second(at) else {
        return i64::MAX;
    };
    zone.following(at)
        .find(|t| i64::from(t.offset().seconds()) != offset)
        .map_or(i64::MAX, |t| t.timestamp().as_second())
}

/// Where the offset last changed, and what it was before.
fn start_before(zone: &TimeZone, at: i64, offset: i64) -> (i64, i64) {
    let Ok(after) = Timestamp::from_second(at + 1) else {
        return (i64::MIN, offset);
    };
    for transition in zone.preceding(after) {
        let start = transition.timestamp().as_second();
        match offset_at(zone, start - 1) {
            Some(before) if before != offset => return (start, before),
            Some(_) => {}
            None => break,
        }
    }
    (i64::MIN, offset)
}
