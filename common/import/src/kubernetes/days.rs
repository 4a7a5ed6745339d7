//! How Kubernetes reads the days of a schedule.

/// With `*/n` in one field of days and other days in the other, Kubernetes runs on the days of either field; here a field that
/// begins with `*` makes both count. The same set is written as a range.
pub(super) fn either_day(schedule: &str) -> String {
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return schedule.to_owned();
    };
    // Only `*`, `?` and `*/1` leave the days to the other field.
    let any = |field: &str| {
        field
            .split(',')
            .any(|item| ["*", "?", "*/1", "?/1"].contains(&item))
    };
    if any(day) || any(weekday) {
        return schedule.to_owned();
    }
    let range = |field: &str, of: &str| -> String {
        let item = |item: &str| match item.strip_prefix(['*', '?']) {
            Some(step) => format!("{of}{step}"),
            None => item.to_owned(),
        };
        field.split(',').map(item).collect::<Vec<_>>().join(",")
    };
    format!(
        "{minute} {hour} {} {month} {}",
        range(day, "1-31"),
        range(weekday, "0-6")
    )
}
