//! The helper: the one process of an agent with rights that stays root when the agent has become a user of its own.

#[doc(hidden)]
pub mod fuzzing;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use farmhand_os::process::name_process;
use rustix::fs::OFlags;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use farmhand_warden_client::helper::protocol::{Reply, Request, Setup};
use farmhand_warden_client::helper::wire;
use farmhand_warden_client::output::keep as keep_sent;
use farmhand_warden_client::{Launch, Paths, PidFd, WardenClient, WardenError, nobody_lives};

/// Requests under way at once; more are refused, so that it never stops listening.
const AT_ONCE: usize = 64;
/// What ten thousand slots ask for.
const MOST_ATTEMPTS: u32 = 65_536;
/// Handed over and possibly still alive.
const MOST_KNOWN: usize = 256;
const MOST_TEXT: u64 = 64 << 10;

pub(super) struct Helper {
    setup: Setup,
    /// Wardens that an agent has been connected to, and so may ask to be killed.
    known: Mutex<Vec<PidFd>>,
}

/// Never returns. Its standard input is the agent's socket.
pub fn run() -> ! {
    farmhand_os::signal::ignore_stray();
    name_process(c"farmhand-helper");
    let code = match serve() {
        Ok(()) => 0,
        Err(error) => {
            tell(format_args!("{error}"));
            1
        }
    };
    std::process::exit(code)
}

/// One line in the agent's log. A log that cannot be written must not end what keeps root's rights.
fn tell(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "helper: {text}");
}

fn serve() -> io::Result<()> {
    // A key pressed at a terminal is meant for the agent.
    let _ = rustix::process::setsid();
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let Some((setup, _)) = wire::receive::<Setup>(&socket, RecvFlags::empty())? else {
        return Ok(());
    };
    let helper = Arc::new(Helper::new(setup));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Not ignored, which the wardens would inherit: it ends with the agent, whatever else it is told.
        let _deaf = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::quit())?,
        ];
        answer_all(socket, helper).await
    })
}

/// Until the agent is gone.
async fn answer_all(socket: OwnedFd, helper: Arc<Helper>) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    // SAFETY: the descriptor is owned by the AsyncFd and stays open and the same for its life.
    let socket =
        unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(io::Error::from)?;
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let mut ready = socket.readable().await?;
        let received = ready.try_io(|s| wire::receive::<Request>(s, RecvFlags::empty()));
        let (request, reply_to) = match received {
            Err(_) => continue,
            Ok(Ok(None)) => return Ok(()),
            Ok(Ok(Some((request, Some(reply_to))))) => (request, reply_to),
            Ok(Ok(Some((_, None)))) => continue,
            Ok(Err(error)) => {
                tell(format_args!("refused what is not a request: {error}"));
                continue;
            }
        };
        let Ok(permit) = room.clone().try_acquire_owned() else {
            answer(&reply_to, &failed("too many requests at once"), None);
            continue;
        };
        let helper = helper.clone();
        tokio::spawn(async move {
            let (reply, with) = helper.reply(request).await;
            answer(&reply_to, &reply, with);
            drop(permit);
        });
        // Who asks much must not keep what it asked for from being done.
        tokio::task::yield_now().await;
    }
}

/// Whatever the other end is, it is not waited for.
fn answer(to: &OwnedFd, reply: &Reply, with: Option<OwnedFd>) {
    if let Err(error) = wire::send(to, reply, with.as_ref().map(AsFd::as_fd), SendFlags::DONTWAIT) {
        tell(format_args!("an answer was not taken: {error}"));
    }
}

fn failed(why: impl std::fmt::Display) -> Reply {
    Reply::Failed { why: why.to_string() }
}

pub(super) type Answer = (Reply, Option<OwnedFd>);

impl Helper {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            setup,
            known: Mutex::default(),
        }
    }

    pub(super) async fn reply(&self, request: Request) -> Answer {
        let done = self.done(request).await;
        done.unwrap_or_else(|error| (failed(error), None))
    }

    async fn done(&self, request: Request) -> io::Result<Answer> {
        let paths = Paths::new(&self.setup.state_dir);
        let reply = match request {
            Request::Connect => return Ok(self.connect(&paths).await),
            Request::Start {
                serving,
                address,
                deadline_ns,
                soft_ns,
                max_attempts,
            } => {
                let dir = self.setup.state_dir.clone();
                let mut launch = Launch::new(dir, (serving, address), deadline_ns, soft_ns);
                launch.max_attempts = max_attempts.min(MOST_ATTEMPTS);
                let stream = launch.up().await.map_err(io::Error::other)?;
                return Ok(self.hand_over(stream).await);
            }
            Request::Kill { pid } => self.kill(pid).map(|()| Reply::Done)?,
            Request::Gone => nobody_lives(&paths).await.map(|gone| Reply::Gone { gone })?,
            Request::Remove { id } => aside(move || paths.remove_attempt(id))
                .await
                .map(|()| Reply::Done)?,
            Request::Record { id, record } => {
                let file = aside(move || record.open(&paths.run_dir(id))).await?;
                return Ok((Reply::Record, file.map(OwnedFd::from)));
            }
            Request::Mark { id, sent } => {
                aside(move || keep_sent(&paths.attempt_dir(id), sent)).await?;
                Reply::Done
            }
            Request::File { purpose } => {
                let file = self.setup.files.get(&purpose).cloned();
                let file = file.ok_or_else(|| io::Error::other("there is no such file"))?;
                let text = aside(move || text_of(&file)).await?;
                Reply::Text { text }
            }
        };
        Ok((reply, None))
    }

    async fn connect(&self, paths: &Paths) -> Answer {
        match WardenClient::dial_living(paths).await {
            Ok(None) => (Reply::Nobody, None),
            Ok(Some(stream)) => self.hand_over(stream).await,
            Err(error) => (of_error(error), None),
        }
    }

    async fn hand_over(&self, stream: UnixStream) -> Answer {
        let (stream, warden) = match WardenClient::held(stream).await {
            Ok(introduced) => introduced,
            Err(error) => return (of_error(error), None),
        };
        self.know(warden);
        match stream.into_std() {
            Ok(stream) => (Reply::Connected, Some(stream.into())),
            Err(error) => (failed(error), None),
        }
    }

    fn know(&self, warden: PidFd) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|k| k.pid() != warden.pid() && !k.is_dead());
        if known.len() >= MOST_KNOWN {
            known.remove(0);
        }
        known.push(warden);
    }

    fn kill(&self, pid: i32) -> io::Result<()> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter().find(|k| k.pid() == pid) {
            Some(warden) => warden.kill(),
            None => Err(io::Error::other("not a warden of this agent")),
        }
    }
}

fn of_error(error: WardenError) -> Reply {
    match error {
        WardenError::NoAnswer { .. } | WardenError::Gone => Reply::NoAnswer,
        WardenError::Busy(_) => Reply::Busy,
        other => failed(other),
    }
}

/// A job can leave a million files behind, or a file server that hangs.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(io::Error::other(e)))
}

/// The agent's user may not be able to change what is read with root's rights: it would be shown any file by a link. What
/// is not root's alone it has to be able to read itself.
fn text_of(path: &Path) -> io::Result<String> {
    let file = farmhand_policy::only_roots(path)
        .and_then(|real| farmhand_policy::open_trusted(&real, OFlags::NOFOLLOW))
        .map_err(|why| {
            io::Error::other(format!(
                "it is not shown to an agent without rights, because not only root could change it: {why}"
            ))
        })?;
    let mut text = String::new();
    file.take(MOST_TEXT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_TEXT {
        return Err(io::Error::other("it is longer than 64 KiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use rustix::fs::Mode;

    use super::*;
    use farmhand_warden_client::helper::protocol::{Files, Purpose};

    async fn asked(file: &Path) -> Result<String, String> {
        let files = Files::from([(Purpose::Ping, file.to_path_buf())]);
        let state_dir = PathBuf::from("/nonexistent");
        match Helper::new(Setup { state_dir, files })
            .reply(Request::File {
                purpose: Purpose::Ping,
            })
            .await
        {
            (Reply::Text { text }, None) => Ok(text),
            (Reply::Failed { why }, None) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_file_is_shown_where_only_root_could_have_put_it() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for dir in ["kept", "open"] {
            fs::create_dir(at(dir)).unwrap();
            fs::write(at(dir).join("key"), "sesame").unwrap();
        }
        symlink(at("kept/key"), at("kept/link")).unwrap();
        symlink(at("kept/key"), at("open/link")).unwrap();
        symlink(at("open/key"), at("kept/out")).unwrap();
        mode(&at("open"), 0o777);
        for good in ["kept/key", "kept/link"] {
            assert_eq!(asked(&at(good)).await, Ok("sesame".to_owned()), "{good}");
        }
        for bad in ["open/key", "open/link", "kept/out"] {
            let why = asked(&at(bad)).await.unwrap_err();
            assert!(
                why.contains("not only root") && why.contains("0777"),
                "{bad}: {why}"
            );
        }
        // As a file that nobody ever writes into: it is not waited for.
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("kept/pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(asked(&at("kept/pipe")).await.unwrap_err().contains("not a file"));
    }
}
