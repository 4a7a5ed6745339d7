//! Judging table jobs.

use farmhand_store::tables::TableSurvey;

use super::{Check, Level};

/// What is to be said of one table job.
pub(crate) fn judge(job: &TableSurvey) -> Vec<Check> {
    let mut checks = vec![match &job.problem {
        None => Check::ok(
            "table job",
            format!("{}: its table is as it wants it", job.job_id),
        ),
        Some(p) => {
            let (level, impact) = if p.fatal {
                (Level::Failure, "its rows are not run")
            } else {
                (Level::Warning, "each poll takes long")
            };
            let found = format!("{}: {}", job.job_id, p.problem);
            Check::bad(level, "table job", found, impact, p.fix.clone())
        }
    }];
    if let Some(error) = &job.error {
        checks.push(Check::bad(
            Level::Warning,
            "table job",
            format!("{}: {} ends are not written into their rows: {error}", job.job_id, job.unwritten),
            "their rows are not run again, even when their dispatch column is NULL; `farmhand run ls` has the ends",
            "change what the table refuses; agents try again by themselves, at the latest after five minutes",
        ));
    }
    checks
}

/// With which login agents write the rows, when there are any to be written.
pub(crate) fn login(jobs: &[TableSurvey]) -> Option<Check> {
    let node = jobs.iter().find_map(|job| job.own_login.as_deref())?;
    Some(Check::bad(
        Level::Note,
        "table jobs' login",
        format!("the agent of {node} writes users' rows with its own login"),
        "whoever owns the table of a table job can do what that login can, by a trigger",
        "give agents a login for users' rows alone: FARMHAND_ROWS_DATABASE_URL",
    ))
}

#[cfg(test)]
mod tests {
    use farmhand_store::tables::TableProblem;

    use super::*;

    fn survey(problem: Option<bool>, error: Option<&str>) -> TableSurvey {
        TableSurvey {
            job_id: "orders".to_owned(),
            table: serde_json::Value::Null,
            problem: problem.map(|fatal| TableProblem {
                problem: "p".to_owned(),
                fix: "m".to_owned(),
                fatal,
            }),
            unwritten: 1,
            error: error.map(str::to_owned),
            own_login: None,
        }
    }

    #[test]
    fn what_stops_a_job_fails_and_what_slows_it_warns() {
        let level = |problem, error| super::super::worst(&judge(&survey(problem, error)));
        assert_eq!(level(None, None), Level::Ok);
        assert_eq!(level(Some(false), None), Level::Warning);
        assert_eq!(level(Some(true), None), Level::Failure);
        assert_eq!(level(None, Some("no")), Level::Warning);
    }

    #[test]
    fn an_agent_that_writes_rows_with_its_own_login_is_noted_once() {
        let own = TableSurvey {
            own_login: Some("n1".to_owned()),
            ..survey(None, None)
        };
        assert_eq!(login(&[own.clone(), own]).unwrap().level, Level::Note);
        assert!(login(&[survey(None, None)]).is_none());
    }
}
