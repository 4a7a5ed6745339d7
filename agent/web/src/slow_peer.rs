//! A connection whose peer does not take what it is sent is given up: otherwise each such peer would keep a place for good.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that waits for its peer to take something for so long, and then fails.
pub struct PeerTimeout<S> {
    stream: S,
    longest: Duration,
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> PeerTimeout<S> {
    pub fn new(stream: S, longest: Duration) -> Self {
        Self {
            stream,
            longest,
            waits: None,
        }
    }

    /// What a step came to; one that has to wait waits no longer than it may, counted from when the first had to.
    fn bounded<T>(&mut self, step: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if step.is_ready() {
            self.waits = None;
            return step;
        }
        let longest = self.longest;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(longest)));
        ready!(waits.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PeerTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PeerTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(step, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.bounded(step, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let step = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(step, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let step = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(step, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up_and_one_that_takes_its_time_is_not() {
        // Longer than a busy machine lets this test wait.
        let longest = Duration::from_secs(2);
        let (stream, mut peer) = tokio::io::duplex(16);
        let mut stream = PeerTimeout::new(stream, longest);
        let slow = async {
            let mut taken = [0; 8];
            for _ in 0..10 {
                sleep(longest / 8).await;
                peer.read_exact(&mut taken).await.expect("it is still there");
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&[7; 80]), slow);
        written.expect("each piece was taken in time");
        let given_up = stream.write_all(&[7; 80]).await.expect_err("nobody reads");
        assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
    }
}
