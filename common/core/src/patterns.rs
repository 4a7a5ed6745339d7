//! Names of jobs, or how they begin: what a token with `--jobs` may act on.

/// Whether these names, or beginnings, are of this job.
pub fn covers(jobs: &[String], job: &str) -> bool {
    jobs.iter().any(|of| match of.strip_suffix('*') {
        Some(begins) => job.starts_with(begins),
        None => job == of,
    })
}

/// A name, or how names begin and a `*` behind.
pub fn pattern(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('*').unwrap_or(text);
    if name.is_empty() || name.contains('*') || name.chars().any(char::is_control) {
        return Err(
            "write the name of a job, or how names begin and a * behind it, as in 'team-a.*'".to_owned(),
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_covers_itself_and_a_beginning_what_begins_so() {
        let jobs = ["team-a.*".to_owned(), "nightly".to_owned()];
        for (job, covered) in [
            ("team-a.x", true),
            ("team-a.", true),
            ("team-a", false),
            ("team-ab.x", false),
            ("nightly", true),
            ("nightly2", false),
        ] {
            assert_eq!(covers(&jobs, job), covered, "{job}");
        }
        for bad in ["", "*", "a*b", "a**", "a\n*"] {
            assert!(pattern(bad).is_err(), "{bad:?}");
        }
        assert_eq!(pattern("team-a.*").as_deref(), Ok("team-a.*"));
    }
}
