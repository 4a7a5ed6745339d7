//! One connection: opened within a bound, dropped when a statement outlasts its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::future::poll_fn;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row, SimpleQueryMessage, Statement};

use super::config::DbConfig;
use super::direct::{keeps_statements, named_process};
use super::error::{StoreError, is_forgotten};
use super::hosts::summed_up;
use super::note::Note;
use super::settings::{BEGIN, BEGIN_POOLED, PLANS, SESSION, bounded};
use super::statement::{Stmt, stmt};

/// One parameter with its type, so that no statement needs to be prepared.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection. When it is dropped its socket is closed at once, whatever is under way: a cancel request could hit the
/// wrong statement behind a pooler.
pub(crate) struct Conn {
    /// With the task that drives it, and the frequent statements that its process knows.
    client: ClientWrapper,
    /// Set when the server warned that a commit was not confirmed by its standby.
    unconfirmed: Arc<AtomicBool>,
    /// True from sending until the reply, and while a transaction is open: such a connection is never reused.
    busy: bool,
    broken: bool,
    /// Set for connections that only read: what opens their transactions. Sent each time, because a setting of the
    /// session would not follow it through a transaction pooler.
    reading: Option<String>,
    /// Whether it leads to a process of its own. Behind a pooler another one may do the next transaction.
    direct: bool,
    /// Whether frequent statements are prepared: where it is direct, or the pooler keeps them.
    prepares: Arc<AtomicBool>,
    /// Which of the URL's servers it leads to, the one after it, and the one that is asked first.
    server: usize,
    next: usize,
    first: Arc<AtomicUsize>,
}

impl Conn {
    /// Opens a connection to a server that takes writes; the whole of it, TLS and the session check included, takes
    /// at most `config.connect_timeout`. Of several servers the next one is asked as soon as one refuses, or has said nothing
    /// for a while, and the first that takes writes is used: one that is only slow is still waited for.
    pub(crate) async fn open(
        config: &DbConfig,
        notes: Option<mpsc::Sender<Note>>,
    ) -> Result<Self, StoreError> {
        let servers = config.servers();
        let patience = config.patience(servers.len());
        let deadline = Instant::now() + config.connect_timeout;
        let mut order = config.order(servers.len()).peekable();
        let (mut asked, mut refusals) = (FuturesUnordered::new(), Vec::new());
        loop {
            if let Some(number) = order.next() {
                let (server, notes) = (&servers[number], notes.clone());
                let left = deadline.saturating_duration_since(Instant::now());
                asked.push(async move { (number, Self::open_one(server, notes, left).await) });
            }
            let answer = match order.peek() {
                Some(_) => timeout(patience, asked.next()).await,
                None => Ok(asked.next().await),
            };
            match answer {
                Ok(Some((number, Ok(conn)))) => {
                    config.was_right(number);
                    return Ok(Self {
                        server: number,
                        next: (number + 1) % servers.len(),
                        first: Arc::clone(&config.last),
                        ..conn
                    });
                }
                Ok(Some((number, Err(error)))) => refusals.push((servers[number].target(), error)),
                Ok(None) => {
                    return Err(match summed_up(refusals) {
                        StoreError::ReadOnly => Self::why_read_only(&servers, deadline).await,
                        other => other,
                    });
                }
                Err(_) => {}
            }
        }
    }

    /// None of these servers takes writes: whether one of them could.
    async fn why_read_only(servers: &[DbConfig], deadline: Instant) -> StoreError {
        for server in servers {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(mut conn) = Self::open_one(&server.clone().of_any_kind(), None, left).await else {
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let role = conn.query(stmt!("survey_role"), &[], left, false).await;
            if role.is_ok_and(|rows| rows.first().is_some_and(|row| !row.get::<_, bool>("standby"))) {
                return StoreError::WritesOff;
            }
        }
        StoreError::ReadOnly
    }

    async fn open_one(
        config: &DbConfig,
        notes: Option<mpsc::Sender<Note>>,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let attempt = async {
            // Boxed: a future of its own, whose layout those around it need not know.
            let (client, mut connection) = Box::pin(config.log_in(limit)).await?;
            let unconfirmed = Arc::new(AtomicBool::new(false));
            let warned = Arc::clone(&unconfirmed);
            let forward = notes.clone();
            let driver = tokio::spawn(async move {
                while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                    match message {
                        Ok(AsyncMessage::Notice(notice)) => {
                            // 01000 is what a cancelled wait for the synchronous standby comes as;
                            // 57P01 the same when the server shuts down. Both precede the reply.
                            // A user's trigger may warn under the first: the server names its file that warns.
                            let unsure = matches!(notice.code().code(), "01000" | "57P01")
                                && notice.file().is_none_or(|file| file.ends_with("syncrep.c"));
                            if unsure && notice.parsed_severity() == Some(Severity::Warning) {
                                warned.store(true, Ordering::Release);
                                tracing::warn!(notice = notice.message(), "commit not confirmed");
                            } else {
                                tracing::debug!(notice = notice.message(), "database notice");
                            }
                        }
                        Ok(AsyncMessage::Notification(n)) => {
                            if let (Some(forward), Some(note)) = (&forward, Note::parse(n.payload())) {
                                // A full queue already wakes its reader; hints may be lost.
                                let _ = forward.try_send(note);
                            }
                        }
                        Ok(_) => {}
                        Err(error) => {
                            tracing::debug!(error = %super::error::chain(&error), "database connection ended");
                            break;
                        }
                    }
                }
            });
            let mut conn = Self {
                client: ClientWrapper::new(client, driver),
                unconfirmed,
                busy: false,
                broken: false,
                reading: (config.read_only)
                    .map(|limit| bounded(&format!("{BEGIN} READ ONLY; {PLANS}"), limit)),
                direct: false,
                prepares: Arc::default(),
                server: 0,
                next: 0,
                first: Arc::default(),
            };
            conn.get_acquainted(&config.kept).await?;
            if let Some(notes) = notes {
                conn.client
                    .batch_execute("LISTEN farmhand")
                    .await
                    .map_err(|e| StoreError::from_statement("listen", &e))?;
                let _ = notes.try_send(Note::Reconnected { direct: conn.direct });
            }
            Ok(conn)
        };
        match timeout(limit, attempt).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::Unreachable(format!(
                "no connection within {limit:.1?}"
            ))),
        }
    }

    /// Single statements run with the server's default isolation, and their re-checks after a wait are
    /// those of READ COMMITTED.
    async fn get_acquainted(&mut self, kept: &Arc<AtomicBool>) -> Result<(), StoreError> {
        let failed = |error| StoreError::from_statement("connect", &error);
        let reply = self
            .client
            .simple_query("SELECT current_setting('default_transaction_isolation'), pg_backend_pid()")
            .await
            .map_err(failed)?;
        let row = reply.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((row.get(0), row.get(1))),
            _ => None,
        });
        let (isolation, process) = row.unwrap_or_default();
        if isolation != Some("read committed") {
            return Err(StoreError::NotReady {
                why: format!(
                    "default_transaction_isolation is {:?}, and only 'read committed' works",
                    isolation.unwrap_or("unknown")
                ),
                fix: "as an administrator: ALTER ROLE … SET default_transaction_isolation = 'read committed'"
                    .to_owned(),
            });
        }
        let process = process.and_then(|pid| pid.parse().ok());
        // What only reads has plans of its own, one for each page.
        if self.reading.is_some() {
            return Ok(());
        }
        self.direct = process.is_some() && process == named_process(&self.client).await;
        if self.direct {
            self.client.batch_execute(SESSION).await.map_err(failed)?;
            self.prepares = Arc::new(AtomicBool::new(true));
        } else if kept.load(Ordering::Relaxed) && keeps_statements(&self.client).await.map_err(failed)? {
            self.prepares = Arc::clone(kept);
        }
        Ok(())
    }

    /// Nor is one that leads to a server which has been left.
    pub(crate) fn is_usable(&self) -> bool {
        let stays = self.first.load(Ordering::Relaxed) == self.server;
        stays && !self.busy && !self.broken && !self.client.is_closed()
    }

    /// A former primary that nobody told of its successor says that it takes writes, and confirms none: the others are asked
    /// before it. Unless that has happened already.
    fn leave(&self) {
        let ordering = Ordering::Relaxed;
        let _ = self
            .first
            .compare_exchange(self.server, self.next, ordering, ordering);
    }

    /// The statement as this connection's process or pooler knows it, for a frequent one.
    async fn prepare(
        &self,
        stmt: Stmt,
        params: &[Param<'_>],
    ) -> Result<Option<Statement>, tokio_postgres::Error> {
        if !stmt.often || !self.prepares.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let known = self.client.prepare_typed_cached(stmt.sql, &types).await?;
        Ok(Some(known))
    }

    /// One statement in a transaction of its own. `both`: the server ends it after `limit`, too.
    pub(crate) async fn query(
        &mut self,
        stmt: Stmt,
        params: &[Param<'_>],
        limit: Duration,
        both: bool,
    ) -> Result<Vec<Row>, StoreError> {
        self.unconfirmed.store(false, Ordering::Release);
        self.busy = true;
        let bounded = both.then(|| bounded(self.begin(), limit));
        let asked = async {
            let known = self.prepare(stmt, params).await?;
            // Whichever process of a pooler does it may make the plan that it keeps.
            let pooled = (known.is_some() && !self.direct).then_some(BEGIN_POOLED);
            let begin = bounded.as_deref().or(self.reading.as_deref()).or(pooled);
            self.exchange(begin, ask(&self.client, stmt, known, params), begin.is_some())
                .await
        };
        let reply = timeout(limit, asked).await;
        let rows = self.settle(stmt.op, !stmt.only_reads(), reply)?;
        self.committed(stmt.op)?;
        Ok(rows)
    }

    /// A statement with what begins and ends its transaction, in one round trip: join! polls in order, and the first poll sends. COMMIT
    /// after a statement that failed rolls back.
    async fn exchange(
        &self,
        begin: Option<&str>,
        asked: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>>,
        commit: bool,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let say = async |sql: Option<&str>| match sql {
            Some(sql) => self.client.batch_execute(sql).await,
            None => Ok(()),
        };
        let (begun, rows, ended) = tokio::join!(say(begin), asked, say(commit.then_some("COMMIT")));
        begun?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }

    pub(crate) fn begin(&self) -> &str {
        let writing = if self.direct { BEGIN } else { BEGIN_POOLED };
        self.reading.as_deref().unwrap_or(writing)
    }

    /// A statement of a transaction, which it opens if it is the `first`, and commits if it is the `last`.
    pub(crate) async fn query_within(
        &mut self,
        stmt: Stmt,
        params: &[Param<'_>],
        (first, last): (bool, bool),
        deadline: Instant,
    ) -> Result<Vec<Row>, StoreError> {
        if first {
            self.unconfirmed.store(false, Ordering::Release);
            self.busy = true;
        }
        let asked = async {
            let known = self.prepare(stmt, params).await?;
            let begin = first.then(|| self.begin());
            self.exchange(begin, ask(&self.client, stmt, known, params), last)
                .await
        };
        let reply = timeout_at(deadline, asked).await;
        let rows = self.settle(stmt.op, last && !stmt.only_reads(), reply)?;
        if last {
            self.committed(stmt.op)?;
        }
        Ok(rows)
    }

    /// Several statements without parameters, as one message.
    pub(crate) async fn batch(
        &mut self,
        op: &'static str,
        sql: &str,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        self.busy = true;
        let reply = timeout_at(deadline, self.client.batch_execute(sql)).await;
        self.settle(op, false, reply)
    }

    /// Ends the transaction. COMMIT of a failed transaction answers without an error; callers get here
    /// only when every statement of it succeeded.
    pub(crate) async fn commit(&mut self, op: &'static str, deadline: Instant) -> Result<(), StoreError> {
        let reply = timeout_at(deadline, self.client.batch_execute("COMMIT")).await;
        self.settle(op, true, reply)?;
        self.committed(op)
    }

    /// The transaction is over, and confirmed unless the server warned.
    fn committed(&mut self, op: &'static str) -> Result<(), StoreError> {
        self.busy = false;
        if self.unconfirmed.swap(false, Ordering::AcqRel) {
            return Err(StoreError::NotConfirmed { op });
        }
        Ok(())
    }

    pub(crate) async fn rollback(&mut self, op: &'static str, deadline: Instant) -> Result<(), StoreError> {
        let reply = timeout_at(deadline, self.client.batch_execute("ROLLBACK")).await;
        self.settle(op, false, reply)?;
        self.busy = false;
        Ok(())
    }

    /// `commits`: without an answer what was asked may have been done.
    fn settle<T>(
        &mut self,
        op: &'static str,
        commits: bool,
        reply: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, StoreError> {
        let error = match reply {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => {
                // Also after an error that is the statement's own: an open transaction has failed, and
                // a server that turned read-only must be left. Errors are rare enough to reconnect for.
                self.broken = true;
                if is_forgotten(&error) && self.prepares.swap(false, Ordering::Relaxed) && !self.direct {
                    tracing::warn!(
                        op,
                        "the pooler lost a prepared statement: none is used behind it any more"
                    );
                }
                StoreError::from_statement(op, &error)
            }
            Err(_) => {
                self.broken = true;
                // What only reads waits for no standby.
                if self.reading.is_none() {
                    self.leave();
                }
                StoreError::TimedOut { op, unsure: false }
            }
        };
        let unsure = commits && self.reading.is_none();
        Err(if unsure { error.unsure() } else { error })
    }
}

async fn ask(
    client: &Client,
    stmt: Stmt,
    known: Option<Statement>,
    params: &[Param<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    match known {
        Some(statement) => {
            let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
            client.query(&statement, &values).await
        }
        None => client.query_typed(stmt.sql, params).await,
    }
}
