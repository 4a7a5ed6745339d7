//! The log file of reaper and warden.

/// One line on standard error, which is that file. A full disk must not stop either.
pub(super) fn log(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let (now, text) = (
        jiff::Timestamp::now(),
        farmhand_core::text::sanitize::one_line(&text.to_string()),
    );
    let _ = writeln!(std::io::stderr(), "{now:.3} [{}] {text}", std::process::id());
}
