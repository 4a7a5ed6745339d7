//! What a connection's bytes go through: TLS, or without TLS a guard that reads along until the server has let us in.
//!
//! A server that cannot be told from another must not be given the password, nor anything from which it could be
//! guessed, and must not be believed because it let us in without asking: with a password at hand, it has to show by
//! SCRAM that it knows it too.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

type Rustls = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
type RustlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

#[derive(Clone)]
pub(crate) enum Link {
    Tls(MakeRustlsConnect),
    /// Without TLS over TCP; whether there is a password.
    Guarded {
        password: bool,
    },
}

impl MakeTlsConnect<Socket> for Link {
    type Stream = LinkStream;
    type TlsConnect = LinkConnect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<LinkConnect> {
        match self {
            Self::Tls(tls) => MakeTlsConnect::<Socket>::make_tls_connect(tls, domain)
                .map(LinkConnect::Tls)
                .map_err(io::Error::other),
            Self::Guarded { password } => Ok(LinkConnect::Guarded(*password)),
        }
    }
}

pub(crate) enum LinkConnect {
    Tls(Rustls),
    Guarded(bool),
}

impl TlsConnect<Socket> for LinkConnect {
    type Stream = LinkStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<LinkStream>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        match self {
            Self::Tls(tls) => {
                let connecting = tls.connect(stream);
                Box::pin(async move { Ok(LinkStream::Tls(Box::new(connecting.await?))) })
            }
            Self::Guarded(password) => Box::pin(std::future::ready(Ok(LinkStream::Guarded {
                stream,
                guard: Guard::new(password),
            }))),
        }
    }
}

pub(crate) enum LinkStream {
    Tls(Box<RustlsStream>),
    Guarded { stream: Socket, guard: Guard },
}

impl TlsStream for LinkStream {
    fn channel_binding(&self) -> ChannelBinding {
        match self {
            Self::Tls(tls) => tls.channel_binding(),
            Self::Guarded { .. } => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for LinkStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_read(cx, buf),
            Self::Guarded { stream, guard } => {
                let before = buf.filled().len();
                ready!(Pin::new(stream).poll_read(cx, buf))?;
                let new = buf.filled().get(before..).unwrap_or_default();
                Poll::Ready(guard.read(new).map_err(io::Error::other))
            }
        }
    }
}

impl AsyncWrite for LinkStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_write(cx, buf),
            Self::Guarded { stream, .. } => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
            Self::Guarded { stream, .. } => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
            Self::Guarded { stream, .. } => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distrust {
    Cleartext,
    Md5,
    NoProof,
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cleartext => {
                "without TLS the server asks for the password itself, and is not given it; let pg_hba.conf say \
                 scram-sha-256, or use TLS"
            }
            Self::Md5 => {
                "without TLS the server asks for the password's MD5, from which it can be guessed, and is not given it; \
                 let pg_hba.conf say scram-sha-256, or use TLS"
            }
            Self::NoProof => {
                "without TLS the server let us in without showing that it knows the password, so it may be any server; \
                 let pg_hba.conf say scram-sha-256, use TLS, or name no password"
            }
        })
    }
}

impl std::error::Error for Distrust {}

/// Reads the server's messages until it has let us in or refused.
pub(crate) struct Guard {
    password: bool,
    /// Of the message that is being read: kind, length, and the kind of authentication.
    head: [u8; 9],
    have: usize,
    /// Of the rest of that message.
    skip: usize,
    proven: bool,
    done: bool,
}

impl Guard {
    fn new(password: bool) -> Self {
        Self {
            password,
            head: [0; 9],
            have: 0,
            skip: 0,
            proven: false,
            done: false,
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Distrust> {
        for byte in bytes {
            if self.done {
                break;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.head[self.have] = *byte;
            self.have += 1;
            let want = if self.head[0] == b'R' { 9 } else { 5 };
            if self.have == want {
                self.message()?;
                self.have = 0;
            }
        }
        Ok(())
    }

    fn message(&mut self) -> Result<(), Distrust> {
        let number = |at: usize| {
            let mut four = [0; 4];
            four.copy_from_slice(&self.head[at..at + 4]);
            u32::from_be_bytes(four)
        };
        let length = usize::try_from(number(1)).unwrap_or(usize::MAX);
        self.skip = length.saturating_sub(self.have - 1);
        if self.head[0] != b'R' {
            // An error, or whatever follows after having been let in by nobody: the client knows what to make of it.
            self.done = self.head[0] == b'E';
            return Ok(());
        }
        match number(5) {
            0 if self.password && !self.proven => Err(Distrust::NoProof),
            0 => {
                self.done = true;
                Ok(())
            }
            3 => Err(Distrust::Cleartext),
            5 => Err(Distrust::Md5),
            // The last step of SCRAM; the client checks the proof in it.
            12 => {
                self.proven = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message about authentication.
    fn auth(code: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(8 + body.len()).unwrap();
        let mut bytes = vec![b'R'];
        bytes.extend(length.to_be_bytes());
        bytes.extend(code.to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn told(password: bool, bytes: &[u8]) -> Result<(), Distrust> {
        // In one piece, and byte by byte.
        let whole = Guard::new(password).read(bytes);
        let mut guard = Guard::new(password);
        let single = bytes.iter().try_for_each(|b| guard.read(&[*b]));
        assert_eq!(whole, single);
        whole
    }

    #[test]
    fn nothing_is_answered_to_a_request_for_the_password_or_its_md5() {
        assert_eq!(told(true, &auth(3, &[])), Err(Distrust::Cleartext));
        assert_eq!(told(true, &auth(5, &[1, 2, 3, 4])), Err(Distrust::Md5));
        let mut noticed = vec![b'N', 0, 0, 0, 6, b'R', 0];
        noticed.extend(auth(3, &[]));
        assert_eq!(told(true, &noticed), Err(Distrust::Cleartext));
    }

    #[test]
    fn a_server_that_has_a_password_to_prove_proves_it() {
        assert_eq!(told(true, &auth(0, &[])), Err(Distrust::NoProof));
        assert_eq!(told(false, &auth(0, &[])), Ok(()));
        let mut scram = auth(10, b"SCRAM-SHA-256\0\0");
        scram.extend(auth(11, b"r=x"));
        assert_eq!(
            told(true, &[scram.clone(), auth(0, &[])].concat()),
            Err(Distrust::NoProof)
        );
        scram.extend(auth(12, b"v=x"));
        scram.extend(auth(0, &[]));
        assert_eq!(told(true, &scram), Ok(()));
    }

    #[test]
    fn what_comes_after_the_welcome_is_not_looked_at() {
        let mut bytes = auth(0, &[]);
        bytes.extend(auth(3, &[]));
        assert_eq!(told(false, &bytes), Ok(()));
    }
}
