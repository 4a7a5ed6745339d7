//! Telling people: notes become messages, messages go out, and a sign of life goes to a dead man's switch.
//!
//! A task of its own with a connection of its own: nothing here is ever waited for by claiming or by the lease. It
//! polls when the session's polls say that there is something to tell.

pub(crate) mod mail;
mod ping;
mod post;
mod secrets;
mod smtp;
mod wake;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use farmhand_core::notify::{Channel, Happening, TargetSpec, email_address, pause};
use farmhand_store::notify::{self, Delivery, Settled, Verdict, Watch, Watched};
use farmhand_store::{Db, StoreError, tls};
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::rustls::ClientConfig;

pub use ping::{Ping, PingUrl};
pub use smtp::{Smtp, SmtpTls};
pub(crate) use wake::Wake;

use crate::context::Context;
use farmhand_os::random::random;
use farmhand_telemetry::events::Event;
use farmhand_telemetry::snapshot::{self, Deadlines};

/// Messages under way at once.
const AT_ONCE: usize = 8;
/// How long a message is left to its sender: longer than a try and the record of it.
const LEASE: Duration = Duration::from_secs(20);
/// Tries to record what became of a message while the database is away; then it is sent again.
const RECORDS: usize = 5;

/// What this machine's configuration says about telling people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    pub secrets_dir: std::path::PathBuf,
    /// The mail server; without one no mail is sent.
    pub smtp: Option<Smtp>,
    /// Where signs of life are sent; without it nowhere.
    pub ping: Option<Ping>,
}

pub(crate) struct Notifier {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    ping: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Starts it on a connection of its own, which it opens when there is something to tell.
    pub(crate) fn start(ctx: Arc<Context>, db: Db) -> Self {
        let (stop, stopped) = oneshot::channel();
        let ping = (ctx.config.outside.ping.clone())
            .map(|ping| tokio::spawn(ping::run(ctx.clone(), db.clone(), ping)));
        let worker = Worker {
            deadlines: Deadlines::default(),
            sending: JoinSet::new(),
            under_way: Vec::new(),
            tls: None,
            mail_missed: false,
            ctx,
            db,
        };
        Self {
            stop,
            task: tokio::spawn(worker.run(stopped)),
            ping,
        }
    }

    /// What is under way gets a moment; the rest is sent by others, or later.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        if let Some(ping) = self.ping {
            ping.abort();
        }
        let abort = self.task.abort_handle();
        if tokio::time::timeout(Duration::from_secs(2), self.task)
            .await
            .is_err()
        {
            abort.abort();
        }
    }
}

struct Worker {
    ctx: Arc<Context>,
    db: Db,
    deadlines: Deadlines,
    sending: JoinSet<String>,
    /// `channel target` of each that is being sent.
    under_way: Vec<String>,
    /// As they could be read last: certificates are replaced while an agent runs.
    tls: Option<Arc<ClientConfig>>,
    /// It has been said that this agent cannot send mail.
    mail_missed: bool,
}

impl Worker {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let ctx = self.ctx.clone();
        let mut tick = tokio::time::interval(ctx.config.snapshot_every());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let result = tokio::select! {
                biased;
                _ = &mut stopped => break,
                Some(done) = self.sending.join_next() => {
                    match done {
                        Ok(place) => self.arrived(&place),
                        Err(e) => {
                            // One that panicked does not say where it was.
                            tracing::error!("a notification's task failed: {e}");
                            if self.sending.is_empty() {
                                self.under_way.clear();
                            }
                        }
                    }
                    self.send().await
                }
                () = ctx.wake.rung.notified() => self.work().await,
                () = ctx.wake.watch.notified() => self.watch_deadlines().await,
                _ = tick.tick(), if ctx.config.listen.is_none() => self.watch_deadlines().await,
            };
            if let Err(e) = result {
                // The statement's observer has counted it, and the next poll rings again.
                tracing::debug!("notifications: {e}");
            }
        }
        while self.sending.join_next().await.is_some() {}
    }

    /// Settles what there is and sends what is due.
    async fn work(&mut self) -> Result<(), StoreError> {
        while let Settled::Done { more: true, .. } = notify::settle(&self.db, &[]).await? {}
        self.send().await
    }

    /// Looks for missed deadlines when it is this agent's turn. One that cannot leaves the next turns to others.
    async fn watch_deadlines(&mut self) -> Result<(), StoreError> {
        let looked = self.look_for_missed().await;
        self.ctx.wake.looked(looked.is_ok());
        looked
    }

    async fn look_for_missed(&mut self) -> Result<(), StoreError> {
        let every = snapshot::turn(self.ctx.config.snapshot_every());
        let wake = &self.ctx.wake;
        let seen = match wake.take_seen() {
            None if wake.watched.load(Ordering::Relaxed) => {
                notify::watch(&self.db, &self.ctx.config.address, every).await?
            }
            seen => seen,
        };
        let Some(Watch { jobs, mail }) = seen else {
            return Ok(());
        };
        self.miss_mail(mail);
        self.check_deadlines(&jobs).await
    }

    /// Tells of deadlines that have passed, each once. A job that waits for a later one now is late until it succeeds: who was told of
    /// the first is told of that.
    async fn check_deadlines(&mut self, watched: &[Watched]) -> Result<(), StoreError> {
        let points: Vec<_> = watched.iter().map(|w| w.point.clone()).collect();
        self.deadlines.learn(&self.db, &points).await?;
        let happenings: Vec<(String, Happening)> = watched
            .iter()
            .filter_map(|w| {
                let deadline = self.deadlines.of(&w.point).filter(|at| *at <= w.now)?;
                let news = w.late_since.is_none_or(|told| told < deadline);
                let happening = Happening::MissedDeadline {
                    deadline,
                    last_success: w.point.last_success,
                };
                news.then(|| (w.point.job_id.clone(), happening))
            })
            .collect();
        if happenings.is_empty() {
            return Ok(());
        }
        notify::settle(&self.db, &happenings).await?;
        self.send().await
    }

    /// Says once that targets want mail which this agent cannot send: before the first is to be sent.
    fn miss_mail(&mut self, targets: Vec<String>) {
        if !self.mail_missed && self.ctx.config.outside.smtp.is_none() && !targets.is_empty() {
            self.mail_missed = true;
            self.ctx.events.emit(Event::NoMail { targets });
        }
    }

    /// Sends what is due, as far as there is room.
    async fn send(&mut self) -> Result<(), StoreError> {
        let room = AT_ONCE.saturating_sub(self.sending.len());
        if room == 0 {
            return Ok(());
        }
        let busy = &self.under_way;
        let claimed = notify::claim(&self.db, &self.ctx.config.address, room, busy, LEASE).await?;
        if claimed.is_empty() {
            return Ok(());
        }
        let read = self.tls();
        for delivery in claimed {
            let place = format!("{} {}", delivery.channel, delivery.target);
            self.under_way.push(place.clone());
            let tls = read.clone();
            let (ctx, db) = (self.ctx.clone(), self.db.clone());
            self.sending.spawn(async move {
                let result = match tls {
                    Ok(tls) => deliver(&ctx.config.outside, &tls, &delivery).await,
                    Err(e) => Err(e),
                };
                conclude(&ctx, &db, &delivery, result).await;
                place
            });
        }
        Ok(())
    }

    fn arrived(&mut self, place: &str) {
        if let Some(at) = self.under_way.iter().position(|p| p == place) {
            self.under_way.swap_remove(at);
        }
    }

    fn tls(&mut self) -> Result<Arc<ClientConfig>, String> {
        match (tls::outgoing(), &self.tls) {
            (Ok(read), _) => Ok(self.tls.insert(Arc::new(read)).clone()),
            (Err(_), Some(before)) => Ok(before.clone()),
            (Err(error), None) => Err(error.to_string()),
        }
    }
}

/// Whether its target is still there and has the channel.
fn has_channel(delivery: &Delivery) -> bool {
    let spec = delivery.spec.as_ref();
    spec.is_some_and(|spec| spec.channels().contains(&delivery.channel))
}

/// One try. `Ok` may hold a complaint about a part of it.
async fn deliver(
    outside: &Outside,
    tls: &Arc<ClientConfig>,
    delivery: &Delivery,
) -> Result<Option<String>, String> {
    let Some(spec) = &delivery.spec else {
        return Err("there is no such target any more, or this release cannot read it".to_owned());
    };
    if !has_channel(delivery) {
        return Err(format!("it has no {} any more", delivery.channel));
    }
    match delivery.channel {
        Channel::Webhook => webhook(outside, tls, delivery, spec).await.map(|()| None),
        Channel::Email => {
            let Some(smtp) = &outside.smtp else {
                return Err("this agent sends no mail: its configuration has no [smtp]".to_owned());
            };
            if let Some((bad, why)) = spec
                .email
                .iter()
                .find_map(|to| Some((to, email_address(to).err()?)))
            {
                return Err(format!("{bad:?} is not an address: {why}"));
            }
            let mail = mail::compose(delivery, &smtp.from, &spec.email, Timestamp::now())?;
            smtp::send(smtp, tls, &spec.email, &mail, post::LIMIT).await
        }
    }
}

async fn webhook(
    outside: &Outside,
    tls: &Arc<ClientConfig>,
    delivery: &Delivery,
    spec: &TargetSpec,
) -> Result<(), String> {
    let (mut url, mut headers) = secrets::webhook(&outside.secrets_dir, spec)?;
    // Of the address as it was given: a service's form may have its key moved.
    let secrets = post::secrets(&url, &headers);
    let mut body = body(delivery);
    if let (Some(format), Some(message)) = (spec.format, body.as_object()) {
        let shaped = format.shape(&url, message)?;
        (url.path, body) = (shaped.path, shaped.body);
    }
    let id = delivery.id.to_string();
    for name in ["idempotency-key", "x-farmhand-delivery"] {
        // A UUID is a valid value.
        let value = HeaderValue::from_str(&id).map_err(|e| e.to_string())?;
        headers.push((HeaderName::from_static(name), value));
    }
    let what = post::Outgoing {
        method: Method::POST,
        url: &url,
        headers,
        body: Bytes::from(body.to_string()),
        secrets,
    };
    post::send(tls, what, post::LIMIT).await
}

/// The stored message, and what belongs to this delivery.
fn body(delivery: &Delivery) -> Value {
    let mut body = delivery.body.clone();
    body["id"] = delivery.id.to_string().into();
    body["target"] = delivery.target.clone().into();
    body["at"] = delivery.created_at.to_string().into();
    body
}

/// Records what became of a try and says so.
async fn conclude(ctx: &Context, db: &Db, delivery: &Delivery, result: Result<Option<String>, String>) {
    let verdict = match &result {
        Ok(_) => Verdict::Delivered,
        Err(error) if delivery.old || !has_channel(delivery) => Verdict::Failed { error: error.clone() },
        Err(error) => Verdict::Again {
            error: error.clone(),
            pause: pause(delivery.tries, random()),
        },
    };
    let (target, channel, topic) = (delivery.target.clone(), delivery.channel, delivery.topic);
    let (job_id, run_id, tries) = (delivery.job_id.clone(), delivery.run_id, delivery.tries);
    ctx.events.emit(match result {
        Ok(complaint) => Event::Delivered {
            target,
            channel,
            topic,
            job_id,
            complaint,
        },
        Err(error) if matches!(verdict, Verdict::Failed { .. }) => Event::NotificationFailed {
            target,
            channel,
            topic,
            job_id,
            run_id,
            tries,
            error,
        },
        Err(error) => Event::NotificationDelayed {
            target,
            channel,
            topic,
            job_id,
            run_id,
            tries,
            error,
        },
    });
    for _ in 0..RECORDS {
        match notify::sent(db, delivery, &verdict).await {
            Ok(_) => return,
            Err(e) => tracing::debug!("recording a notification: {e}"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
