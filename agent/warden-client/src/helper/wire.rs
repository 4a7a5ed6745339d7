//! One message, and at most one descriptor with it, over a socket that keeps messages apart.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Room for a file that is handed over as text; a longer message is refused.
pub(crate) const MAX_MESSAGE: usize = 128 << 10;

/// Two ends, for a process and the helper that it starts.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Sends one message, and a descriptor with it if there is one.
pub fn send<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    with: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MAX_MESSAGE {
        return Err(io::Error::other("the message is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = with.into_iter().collect();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    loop {
        match sendmsg(
            &socket,
            &[IoSlice::new(&text)],
            &mut control,
            flags | SendFlags::NOSIGNAL,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

/// `None`: the other side is gone.
pub fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut text = vec![0; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let parts = &mut [IoSliceMut::new(&mut text)];
        match recvmsg(&socket, parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut with = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            with = fds.last();
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::other("the message is too long"));
    }
    let message = serde_json::from_slice(&text[..received.bytes])?;
    Ok(Some((message, with)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_message_arrives_whole_with_its_descriptor_and_an_end_is_an_end() {
        let (one, other) = pair().unwrap();
        let (gift, kept) = pair().unwrap();
        send(&one, &"first", Some(gift.as_fd()), SendFlags::empty()).unwrap();
        send(&one, &"second", None, SendFlags::empty()).unwrap();
        drop(gift);
        let (text, with) = receive::<String>(&other, RecvFlags::empty()).unwrap().unwrap();
        assert_eq!(text, "first");
        send(with.unwrap(), &1, None, SendFlags::empty()).unwrap();
        assert_eq!(
            receive::<i32>(&kept, RecvFlags::empty()).unwrap().map(|m| m.0),
            Some(1)
        );
        let (text, with) = receive::<String>(&other, RecvFlags::empty()).unwrap().unwrap();
        assert_eq!((text.as_str(), with.is_none()), ("second", true));
        drop(one);
        assert!(receive::<String>(&other, RecvFlags::empty()).unwrap().is_none());
    }

    #[test]
    fn what_is_no_message_or_too_long_is_an_error() {
        let (one, other) = pair().unwrap();
        send(&one, &"a text", None, SendFlags::empty()).unwrap();
        assert!(receive::<i32>(&other, RecvFlags::empty()).is_err());
        let long = "x".repeat(MAX_MESSAGE);
        assert!(send(&one, &long, None, SendFlags::empty()).is_err());
    }
}
