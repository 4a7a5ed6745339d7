//! The way to the session of the moment.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::session::Input;

/// Where answers go: the session of the moment, if any.
#[derive(Clone, Default)]
pub struct Outlet(Arc<Mutex<Option<mpsc::Sender<Input>>>>);

impl Outlet {
    pub fn set(&self, to: Option<mpsc::Sender<Input>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// True if a session took it.
    pub async fn send(&self, input: Input) -> bool {
        let to = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match to {
            Some(to) => to.send(input).await.is_ok(),
            None => false,
        }
    }
}
