//! Judging table jobs.

use farmhand_store::tables::TableSurvey;

use super::{Check, Level};

/// What is to be said of one table job.
pub fn judge(job: &TableSurvey) -> Vec<Check> {
    let mut checks = vec![match &job.problem {
        None => Check::ok(
            "table job",
            format!("{}: its table is as it wants it", job.job_id),
        ),
        Some(p) => {
            let (level, impact) = if p.fatal {
                (Level::Failure, "its rows are not run")
            } else {
                (
                    Level::Warning,
                    "some of its rows are not run, or each look takes long",
                )
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
}
