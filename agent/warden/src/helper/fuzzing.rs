//! A helper within another process, for tests that say anything to it. It starts no warden.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::net::{RecvFlags, SendFlags, send};
use tokio::runtime::Runtime;

use super::Helper;
use farmhand_warden_client::helper::protocol::{Files, Purpose, Request, Setup};
use farmhand_warden_client::helper::wire;

pub struct Captive {
    helper: Helper,
    runtime: Runtime,
    ends: (OwnedFd, OwnedFd),
}

impl Captive {
    pub fn new(state_dir: PathBuf, named: PathBuf) -> io::Result<Self> {
        let files = Files::from([(Purpose::Ping, named)]);
        Ok(Self {
            helper: Helper::new(Setup { state_dir, files }),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            ends: wire::pair()?,
        })
    }

    /// The answer in JSON, and the file that came with it. `None`: it is no request, or one that would start a warden.
    pub fn answer(&mut self, message: &[u8]) -> io::Result<Option<(String, Option<File>)>> {
        let (theirs, ours) = &self.ends;
        send(theirs, message, SendFlags::empty())?;
        let request = match wire::receive::<Request>(ours, RecvFlags::DONTWAIT) {
            Ok(Some((request, _))) => request,
            // Nothing at all reads as the end.
            Ok(None) | Err(_) => return Ok(None),
        };
        if matches!(request, Request::Start { .. }) {
            return Ok(None);
        }
        let (reply, with) = self.runtime.block_on(self.helper.reply(request));
        Ok(Some((serde_json::to_string(&reply)?, with.map(File::from))))
    }
}
