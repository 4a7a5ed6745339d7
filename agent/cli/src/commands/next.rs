//! `farmhand next`: when a schedule fires.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use farmhand_control::moment;
use farmhand_core::definition::DstPolicy;
use farmhand_core::schedule::{ExpressionError, ParseContext, Schedule, ScheduleError};
use farmhand_core::text;
use jiff::{SignedDuration, Timestamp};

use super::{DatabaseArgs, Exit, Failure, Outcome, completion, out};

#[derive(Args, Debug)]
pub(crate) struct NextArgs {
    /// A job of the farm [default: the next instant of every job]
    #[arg(conflicts_with_all = ["expr", "tz", "dst", "name"], add = completion::job_names())]
    pub(super) job: Option<String>,
    /// A cron expression, macro or "@every 90s"; repeat it for a list. Needs no database
    #[arg(long, value_name = "CRON", allow_hyphen_values = true)]
    expr: Vec<String>,
    /// The time zone whose clock the expression speaks of
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// What clock changes do to fixed times
    #[arg(long, default_value = "once",
        value_parser = PossibleValuesParser::new(DstPolicy::ALL.iter().map(|word| word.as_str()))
            .try_map(|word| word.parse::<DstPolicy>()))]
    dst: DstPolicy,
    /// Only times after this one: RFC 3339, or a local date or time in --tz [default: now]
    #[arg(long, value_name = "T")]
    pub(super) from: Option<String>,
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) count: u32,
    /// The job name that H is chosen by
    #[arg(long, value_name = "JOB", default_value = "")]
    name: String,
    /// How busy the farm will be: what is due in each of the next 24 hours, or on each of the next 7 days
    #[arg(long, value_name = "STEP", value_parser = ["hour", "day"], conflicts_with_all = ["job", "expr", "from", "count"])]
    pub(super) by: Option<String>,
    #[command(flatten)]
    pub(super) database: DatabaseArgs,
}

impl NextArgs {
    /// Whether the question is about an expression, and not about the farm's jobs.
    pub(crate) fn is_about_an_expression(&self) -> bool {
        !self.expr.is_empty()
    }
}

/// `next --expr`; needs no database.
pub(crate) fn run_expr(args: &NextArgs, as_json: bool) -> Outcome {
    let context = ParseContext {
        job: &args.name,
        timezone: &args.tz,
        dst: args.dst,
        ..ParseContext::default()
    };
    let schedule = Schedule::parse(&args.expr, &context).map_err(refused)?;
    let now = Timestamp::now();
    let from = match &args.from {
        Some(text) => moment("--from", text, schedule.timezone())?,
        None => now,
    };
    let instants: Vec<Timestamp> = schedule.iter_after(from).take(args.count as usize).collect();
    show(&schedule, &instants, now, as_json);
    Ok(Exit::Ok)
}

/// Prints instants: a list of RFC 3339 instants, or a table.
pub(super) fn show(schedule: &Schedule, instants: &[Timestamp], now: Timestamp, as_json: bool) {
    if as_json {
        out::json(instants);
        return;
    }
    out::note(&schedule.describe());
    if instants.is_empty() {
        return;
    }
    let zone = schedule.timezone();
    let name = zone.iana_name().unwrap_or("UTC");
    let local = name != "UTC";
    let rows = instants.iter().map(|at| {
        let mut row = vec![text::time(*at), distance(now, *at)];
        if local {
            row.insert(
                0,
                at.to_zoned(zone.clone())
                    .strftime("%a %Y-%m-%d %H:%M:%S %Z")
                    .to_string(),
            );
        }
        row
    });
    let first = if local { format!("{name}|") } else { String::new() };
    out::table(&format!("{first}UTC|IN"), rows);
}

/// A usage error that points at the place.
pub(super) fn refused(error: ScheduleError) -> Failure {
    match &error {
        ScheduleError::Expression(e) => pointed(e),
        ScheduleError::Zone { .. } => Failure::usage(error.to_string()),
    }
}

fn pointed(error: &ExpressionError) -> Failure {
    let field = error.field.map(|f| format!("{f}, ")).unwrap_or_default();
    let what = format!(
        "this schedule cannot be used: {field}column {}: {}",
        error.column, error.problem
    );
    Failure::usage(what).why(error.caret()).next(error.fix.clone())
}

/// `in 3h 5m`, `2d 4h ago`: the two largest units.
pub(super) fn distance(now: Timestamp, at: Timestamp) -> String {
    let between: SignedDuration = at.duration_since(now);
    let seconds = between.as_secs().unsigned_abs();
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let first = units.iter().position(|(_, size)| seconds >= *size).unwrap_or(3);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (name, size) in units.iter().skip(first).take(2) {
        if rest / size > 0 || parts.is_empty() {
            parts.push(format!("{}{name}", rest / size));
        }
        rest %= size;
    }
    let text = parts.join(" ");
    if between.is_negative() {
        format!("{text} ago")
    } else {
        format!("in {text}")
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn a_distance_has_its_two_largest_units() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let of = |seconds| distance(now, now + SignedDuration::from_secs(seconds));
        assert_eq!(of(3 * 3600 + 5 * 60 + 7), "in 3h 5m");
        assert_eq!(of(0), "in 0s");
        assert_eq!(of(59), "in 59s");
        assert_eq!(of(86_400), "in 1d");
        assert_eq!(of(-90), "1m 30s ago");
    }

    #[test]
    fn a_moment_without_an_offset_is_on_the_zones_clock() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(
            moment("--from", "2026-07-01", &berlin).unwrap().to_string(),
            "2026-06-30T22:00:00Z"
        );
        assert_eq!(
            moment("--from", "2026-07-01T00:00:00Z", &berlin)
                .unwrap()
                .to_string(),
            "2026-07-01T00:00:00Z"
        );
        let refused = Failure::from(moment("--from", "soon", &berlin).unwrap_err());
        assert_eq!(refused.exit, Exit::Usage);
    }

    #[test]
    fn a_refused_expression_is_a_usage_error_with_a_caret() {
        let error = Schedule::parse(&["0 25 * * *"], &ParseContext::default()).unwrap_err();
        let failure = refused(error);
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(
            failure.to_string(),
            "error: this schedule cannot be used: hour, column 3: 25 is out of range\n  \
             why:  0 25 * * *\n          ^\n  next: hours are 0-23"
        );
    }
}
