//! What the farm's database says.

use std::fmt::Debug;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

use super::{Farm, SOON};

/// One row of the view `run`.
#[derive(Clone, Debug)]
pub struct Run {
    pub run_id: i64,
    pub job_id: String,
    pub state: String,
    pub running_at: Option<String>,
    pub attempt: i32,
    pub fence: Option<i64>,
    pub retries: i32,
    pub takeovers: i32,
    pub exit_code: Option<i32>,
    pub reason: Option<String>,
    pub count: i64,
}

/// An attempt that ended without ending its run.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub attempt: i32,
    pub address: String,
    pub outcome: String,
    pub reason: Option<String>,
}

impl Run {
    const COLUMNS: &str = "run_id, job_id, state, running_at, attempt, fence, retries, takeovers, exit_code, \
                           reason, count";

    fn of(row: &Row) -> Self {
        Self {
            run_id: row.get(0),
            job_id: row.get(1),
            state: row.get(2),
            running_at: row.get(3),
            attempt: row.get(4),
            fence: row.get(5),
            retries: row.get(6),
            takeovers: row.get(7),
            exit_code: row.get(8),
            reason: row.get(9),
            count: row.get(10),
        }
    }

    pub fn is_over(&self) -> bool {
        !matches!(self.state.as_str(), "due" | "running")
    }
}

impl Farm {
    /// Submits a run in SQL, as an application does.
    pub async fn submit(&self, job: &str) -> i64 {
        let row = self.sql.query_one("SELECT farmhand.submit($1)", &[&job]).await;
        row.unwrap_or_else(|e| panic!("submitting {job}: {e:?}")).get(0)
    }

    /// One run.
    ///
    /// # Panics
    /// When it is unknown.
    pub async fn run(&self, run_id: i64) -> Run {
        let sql = format!("SELECT {} FROM farmhand.run WHERE run_id = $1", Run::COLUMNS);
        let rows = self.sql.query(&sql, &[&run_id]).await.expect("the run");
        // Moving into the history is one transaction, but the view reads twice in one statement: once is all.
        assert_eq!(rows.len(), 1, "records of run {run_id}");
        Run::of(&rows[0])
    }

    /// The runs of a job, oldest first.
    pub async fn runs(&self, job: &str) -> Vec<Run> {
        let sql = format!(
            "SELECT {} FROM farmhand.run WHERE job_id = $1 ORDER BY run_id",
            Run::COLUMNS
        );
        let rows = self.sql.query(&sql, &[&job]).await.expect("the runs");
        rows.iter().map(Run::of).collect()
    }

    /// The attempts of a run that did not end it.
    pub async fn attempts(&self, run_id: i64) -> Vec<Attempt> {
        let sql = "SELECT attempt, address, outcome, reason FROM farmhand.attempt WHERE run_id = $1 ORDER BY attempt";
        let rows = self.sql.query(sql, &[&run_id]).await.expect("the attempts");
        let of = |row: &Row| Attempt {
            attempt: row.get(0),
            address: row.get(1),
            outcome: row.get(2),
            reason: row.get(3),
        };
        rows.iter().map(of).collect()
    }

    /// Waits until the run is over.
    pub async fn over(&self, run_id: i64, bound: Duration) -> Run {
        self.eventually("the run is over", bound, async || {
            let run = self.run(run_id).await;
            if run.is_over() {
                Ok(run)
            } else {
                Err(format!("{run:?}"))
            }
        })
        .await
    }

    /// Waits until the run is over and says that it succeeded.
    pub async fn succeeds(&self, run_id: i64) -> Run {
        let run = self.over(run_id, SOON).await;
        assert_eq!(run.state, "succeeded", "{run:?}");
        run
    }

    /// Waits until an attempt of the run is alive: it has written into the witness file.
    pub async fn lives(&self, run_id: i64, attempt: i32) -> Run {
        self.eventually("the attempt is alive", SOON, async || {
            let run = self.run(run_id).await;
            let alive = self.witness.lives(run_id).contains_key(&attempt);
            let here = run.state == "running" && run.attempt == attempt;
            if alive && here {
                Ok(run)
            } else {
                Err(format!("{run:?}"))
            }
        })
        .await
    }

    /// Waits until the first attempt of the run has begun, however short it is.
    pub async fn lives_or_is_over(&self, run_id: i64) {
        self.eventually("the run begins", SOON, async || {
            match self.witness.lives(run_id).is_empty() {
                false => Ok(()),
                true => Err(format!("{:?}", self.run(run_id).await)),
            }
        })
        .await;
    }

    /// The first run of a job, once there is one.
    pub async fn first_run(&self, job: &str) -> Run {
        self.eventually("the job has a run", SOON, async || {
            self.runs(job)
                .await
                .into_iter()
                .next()
                .ok_or_else(|| format!("no run of {job}"))
        })
        .await
    }

    /// Statements past every program of the farm.
    pub async fn exec(&self, sql: &str) {
        self.sql.exec(sql).await;
    }

    /// The one value of a query.
    pub async fn value<T: FromSqlOwned>(&self, sql: &str) -> T {
        self.sql.value(sql).await
    }

    /// Waits until a query gives this value.
    pub async fn becomes<T: FromSqlOwned + PartialEq + Debug>(&self, bound: Duration, sql: &str, wanted: T) {
        self.eventually(sql, bound, async || match self.value::<T>(sql).await {
            now if now == wanted => Ok(()),
            now => Err(format!("{now:?} is not {wanted:?}")),
        })
        .await;
    }

    /// Waits until a query counts something.
    pub async fn becomes_some(&self, bound: Duration, sql: &str) {
        self.eventually(sql, bound, async || match self.value::<i64>(sql).await {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        })
        .await;
    }

    /// How many events of a kind there are.
    pub async fn events(&self, kind: &str) -> i64 {
        self.value(&format!(
            "SELECT count(*) FROM farmhand.event WHERE kind = '{kind}'"
        ))
        .await
    }

    /// Waits for an event of a kind.
    pub async fn event(&self, kind: &str) {
        let sql = format!("SELECT count(*) FROM farmhand.event WHERE kind = '{kind}'");
        self.becomes_some(SOON, &sql).await;
    }

    /// The stored output of an attempt.
    pub async fn output(&self, run_id: i64, attempt: i32) -> String {
        let rows = self
            .sql
            .query(
                "SELECT chunk FROM farmhand.run_log WHERE run_id = $1 AND attempt = $2 AND stream <> 'agent'
                 ORDER BY seq",
                &[&run_id, &attempt],
            )
            .await
            .expect("the output");
        let bytes: Vec<u8> = rows.iter().flat_map(|r| r.get::<_, Vec<u8>>(0)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
