//! When a job is due: cron expressions, macros and intervals in a time zone.
