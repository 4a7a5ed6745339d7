//! Whether a connection leads to a PostgreSQL process of its own, or to a pooler that hands statements to several; and
//! whether that one keeps prepared statements.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use super::settings::BEGIN_POOLED;
use crate::statement::stmt;

/// The process that the other end named as the one to be cancelled. PostgreSQL names its own process; a pooler, whose
/// processes change hands, makes a number up. `None` when there is no telling.
///
/// The client does not show that number. What it would send to have a statement cancelled holds it, and is sent to
/// nobody here: it is length, code, process and key, of four bytes each, most significant first
/// (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).
pub(super) async fn named_process(client: &Client) -> Option<i32> {
    let paper = Paper::default();
    let written = client
        .cancel_token()
        .cancel_query_raw(paper.clone(), Pretence)
        .await;
    written.ok()?;
    let text = paper.0.lock().unwrap_or_else(PoisonError::into_inner);
    let request = text.len().checked_sub(16).map(|from| &text[from..])?;
    request[8..12].try_into().ok().map(i32::from_be_bytes)
}

/// Whether the pooler keeps prepared statements for its clients: it prepares them under names of its own then, on whichever
/// process of the server does the next transaction. Another one passes names through, so that one client's name may be
/// another's statement. There ours is closed again before anybody else can use that process, because all of this is one
/// transaction. Whatever is answered otherwise, or with an error, is no; only a lost connection is an error.
pub(super) async fn keeps_statements(client: &Client) -> Result<bool, Error> {
    client.batch_execute(BEGIN_POOLED).await?;
    let kept = is_renamed(client).await;
    client.batch_execute("ROLLBACK").await?;
    Ok(kept.unwrap_or(false))
}

/// Closes the statement at its end.
async fn is_renamed(client: &Client) -> Result<bool, Error> {
    let sql = stmt!("kept").sql;
    let asked = client.prepare_typed(sql, &[Type::TEXT]).await?;
    client.query_one(&asked, &[&sql]).await?.try_get(0)
}

/// Keeps what is written to it, and says yes to a request for TLS.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl AsyncRead for Paper {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        into.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paper {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for Paper {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// TLS that changes nothing, for what never leaves the process.
struct Pretence;

impl TlsConnect<Paper> for Pretence {
    type Stream = Paper;
    type Error = io::Error;
    type Future = Ready<io::Result<Paper>>;

    fn connect(self, paper: Paper) -> Self::Future {
        ready(Ok(paper))
    }
}
