//! A few connections, shared: statements, transactions, and one connection that listens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as StdInstant};

use deadpool::managed::{self, Metrics, Object, Pool, PoolError, QueueMode, RecycleError, RecycleResult};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::acting::Doing;
use super::config::DbConfig;
use super::conn::{Conn, Param};
use super::error::StoreError;
use super::note::Note;
use super::{decode, version};
pub(crate) use crate::statement::{Stmt, stmt};

/// How long a connection beyond the first stays open without work.
const IDLE: Duration = Duration::from_secs(15);
/// How many notifications wait for their reader; more are dropped, they are only hints.
const NOTES: usize = 256;

struct Opener {
    config: DbConfig,
    notes: Option<mpsc::Sender<Note>>,
}

impl managed::Manager for Opener {
    type Type = Conn;
    type Error = StoreError;

    async fn create(&self) -> Result<Conn, StoreError> {
        Conn::open(&self.config, self.notes.clone()).await
    }

    async fn recycle(&self, conn: &mut Conn, _: &Metrics) -> RecycleResult<StoreError> {
        if conn.is_usable() {
            Ok(())
        } else {
            Err(RecycleError::message("not reusable"))
        }
    }
}

/// Told of every statement: its name, its round trip with the wait for a connection, and how it failed.
pub type Observer = Arc<dyn Fn(&'static str, Duration, Option<&StoreError>) + Send + Sync>;

/// A handle on the database; clones share the connections.
#[derive(Clone)]
pub struct Db {
    pool: Pool<Opener>,
    config: Arc<DbConfig>,
    shrunk: Arc<Mutex<StdInstant>>,
    observer: Option<Observer>,
    /// What a person does with it, if one does.
    doing: Option<Arc<Doing>>,
}

/// Connections by what they do, for the gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGauge {
    pub idle: usize,
    pub used: usize,
    /// The most that there may be.
    pub max: usize,
}

impl Db {
    /// A handle that connects when first used and does not look at the schema.
    pub fn new(config: &DbConfig) -> Self {
        Self::build(config, config.max_pool, None)
    }

    /// Connects, and checks that the schema is the one this binary was built for.
    pub async fn connect(config: &DbConfig) -> Result<Self, StoreError> {
        let db = Self::new(config);
        version::check(&db).await?;
        Ok(db)
    }

    /// One connection of its own for what must never queue behind other work, listening on the channel
    /// `farmhand` from its first statement on. It is opened again by the next statement after it broke.
    pub fn dedicated(config: &DbConfig) -> (Self, mpsc::Receiver<Note>) {
        let (sender, receiver) = mpsc::channel(NOTES);
        let sender = config.listen.then_some(sender);
        (Self::build(config, 1, sender), receiver)
    }

    fn build(config: &DbConfig, size: usize, notes: Option<mpsc::Sender<Note>>) -> Self {
        let opener = Opener {
            config: config.clone(),
            notes,
        };
        let pool = Pool::builder(opener)
            .max_size(size.max(1))
            .queue_mode(QueueMode::Lifo)
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            // The builder refuses only timeouts without a runtime.
            .unwrap_or_else(|e| unreachable!("{e}"));
        Self {
            pool,
            config: Arc::new(config.clone()),
            shrunk: Arc::new(Mutex::new(StdInstant::now())),
            observer: None,
            doing: None,
        }
    }

    /// The same handle, for what a person does.
    pub(crate) fn doing(&self, doing: Arc<Doing>) -> Self {
        Self {
            doing: Some(doing),
            ..self.clone()
        }
    }

    /// The same handle, telling `observer` of every statement from now on.
    #[must_use]
    pub fn observed_by(self, observer: Observer) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }

    /// The configuration it was made from.
    pub fn config(&self) -> &DbConfig {
        &self.config
    }

    /// How the pool's connections are used now.
    pub fn gauge(&self) -> PoolGauge {
        let status = self.pool.status();
        PoolGauge {
            idle: status.available,
            used: status.size.saturating_sub(status.available),
            max: status.max_size,
        }
    }

    /// Closes idle connections and refuses further work.
    pub fn close(&self) {
        self.pool.close();
    }

    async fn conn(&self, op: &'static str) -> Result<Lease, StoreError> {
        self.shrink();
        // Waiting for a free connection counts like connecting: both are bounded, separately from the
        // statement, so that a slow connect does not cut the statement short.
        let limit = self.config.connect_timeout + self.config.statement_timeout;
        match tokio::time::timeout(limit, self.pool.get()).await {
            Ok(Ok(conn)) => Ok(Lease(Some(conn))),
            Ok(Err(PoolError::Backend(error))) => Err(error),
            Ok(Err(error)) => Err(StoreError::Unreachable(format!("{op}: {error}"))),
            Err(_) => Err(StoreError::Unreachable(format!(
                "{op}: all {} connections were busy for {limit:?}",
                self.pool.status().max_size
            ))),
        }
    }

    /// Keeps one connection at rest.
    fn shrink(&self) {
        let mut last = self.shrunk.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < IDLE {
            return;
        }
        *last = StdInstant::now();
        drop(last);
        let mut kept = 0;
        self.pool.retain(|conn, metrics| {
            let keep = conn.is_usable() && (kept == 0 || metrics.last_used() < IDLE);
            kept += usize::from(keep);
            keep
        });
    }

    pub(crate) async fn raw(&self, stmt: Stmt, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        self.alone(stmt, params, None).await
    }

    /// A statement in a transaction of its own. `limit`: the server ends it after so long as well, because a dropped connection
    /// leaves a long statement running there.
    async fn alone(
        &self,
        stmt: Stmt,
        params: &[Param<'_>],
        limit: Option<Duration>,
    ) -> Result<Vec<Row>, StoreError> {
        let patience = limit.unwrap_or(self.config.statement_timeout);
        let started = StdInstant::now();
        let result = match self.conn(stmt.op).await {
            Ok(mut conn) => {
                let conn = conn.conn();
                conn.query(stmt, params, patience, limit.is_some()).await
            }
            Err(error) => Err(error),
        };
        observe(self.observer.as_ref(), stmt.op, started, &result);
        result
    }

    pub(crate) async fn rows<T: DeserializeOwned>(
        &self,
        stmt: Stmt,
        params: &[Param<'_>],
    ) -> Result<Vec<T>, StoreError> {
        decode::rows(stmt.op, &self.raw(stmt, params).await?)
    }

    pub(crate) async fn row<T: DeserializeOwned>(
        &self,
        stmt: Stmt,
        params: &[Param<'_>],
    ) -> Result<Option<T>, StoreError> {
        decode::row(stmt.op, &self.raw(stmt, params).await?)
    }

    /// Of a statement that is ended after `limit`, on the server as well.
    pub(crate) async fn row_within<T: DeserializeOwned>(
        &self,
        stmt: Stmt,
        params: &[Param<'_>],
        limit: Duration,
    ) -> Result<Option<T>, StoreError> {
        let rows = self.alone(stmt, params, Some(limit)).await?;
        decode::row(stmt.op, &rows)
    }

    /// Of a statement that always has one row.
    pub(crate) async fn one<T: DeserializeOwned>(
        &self,
        stmt: Stmt,
        params: &[Param<'_>],
    ) -> Result<T, StoreError> {
        let row = self.row(stmt, params).await?;
        row.ok_or_else(|| no_row(stmt.op))
    }

    /// A transaction, bounded as a whole by the statement timeout. Dropped without a commit, it takes
    /// its connection along.
    pub(crate) async fn transaction(&self, op: &'static str) -> Result<Transaction, StoreError> {
        self.transaction_within(op, self.config.statement_timeout).await
    }

    pub(crate) async fn transaction_within(
        &self,
        op: &'static str,
        limit: Duration,
    ) -> Result<Transaction, StoreError> {
        let started = StdInstant::now();
        let conn = self.conn(op).await;
        if conn.is_err() {
            observe(self.observer.as_ref(), op, started, &conn);
        }
        let mut tx = Transaction {
            conn: conn?,
            observer: self.observer.clone(),
            op,
            deadline: Instant::now() + limit,
            begun: false,
            doing: self.doing.clone(),
        };
        if let Some(doing) = &self.doing {
            match doing.hold(&mut tx).await {
                Err(StoreError::TokenOver) => {
                    tx.rollback().await?;
                    return Err(StoreError::TokenOver);
                }
                held => held?,
            }
        }
        Ok(tx)
    }
}

/// A connection out of the pool. One that must not be used again is closed when this is dropped, not when
/// the pool next looks at it: it may hold locks.
struct Lease(Option<Object<Opener>>);

impl Lease {
    fn conn(&mut self) -> &mut Conn {
        match &mut self.0 {
            Some(conn) => conn,
            // Only drop takes it out.
            None => unreachable!("a lease holds its connection until it is dropped"),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take()
            && !conn.is_usable()
        {
            drop(Object::take(conn));
        }
    }
}

pub(crate) struct Transaction {
    conn: Lease,
    observer: Option<Observer>,
    op: &'static str,
    deadline: Instant,
    begun: bool,
    doing: Option<Arc<Doing>>,
}

impl Transaction {
    pub(crate) async fn rows<T: DeserializeOwned>(
        &mut self,
        stmt: Stmt,
        params: &[Param<'_>],
    ) -> Result<Vec<T>, StoreError> {
        decode::rows(stmt.op, &self.raw(stmt, params).await?)
    }

    async fn raw(&mut self, stmt: Stmt, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        self.ask(stmt, params, false).await
    }

    async fn ask(&mut self, stmt: Stmt, params: &[Param<'_>], last: bool) -> Result<Vec<Row>, StoreError> {
        let started = StdInstant::now();
        let first = !std::mem::replace(&mut self.begun, true);
        let conn = self.conn.conn();
        let result = conn
            .query_within(stmt, params, (first, last), self.deadline)
            .await;
        observe(self.observer.as_ref(), stmt.op, started, &result);
        result
    }

    pub(crate) async fn row<T: DeserializeOwned>(
        &mut self,
        stmt: Stmt,
        params: &[Param<'_>],
    ) -> Result<Option<T>, StoreError> {
        decode::row(stmt.op, &self.raw(stmt, params).await?)
    }

    /// Statements without parameters; for migrations.
    pub(crate) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        if !self.begun {
            self.begun = true;
            let conn = self.conn.conn();
            let begin = conn.begin().to_owned();
            conn.batch(self.op, &begin, self.deadline).await?;
        }
        self.conn.conn().batch(self.op, sql, self.deadline).await
    }

    /// Gives up what was done; the connection stays.
    pub(crate) async fn rollback(mut self) -> Result<(), StoreError> {
        if self.begun {
            self.conn.conn().rollback(self.op, self.deadline).await?;
        }
        Ok(())
    }

    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        let doing = self.doing.take();
        if let Some(doing) = &doing {
            doing.write(&mut self).await?;
        }
        if self.begun {
            let started = StdInstant::now();
            let result = self.conn.conn().commit(self.op, self.deadline).await;
            observe(self.observer.as_ref(), "commit", started, &result);
            result?;
        }
        if let Some(doing) = doing {
            doing.committed();
        }
        Ok(())
    }
}

fn observe<T>(
    observer: Option<&Observer>,
    op: &'static str,
    started: StdInstant,
    result: &Result<T, StoreError>,
) {
    if let Some(observer) = observer {
        observer(op, started.elapsed(), result.as_ref().err());
    }
}

pub(crate) fn no_row(op: &'static str) -> StoreError {
    StoreError::Decode {
        op,
        message: "no row".to_owned(),
    }
}
