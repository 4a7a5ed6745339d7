//! Attacks on a whole farm: each is refused, and recorded where people look for it.

mod credentials;
mod parameters;
mod redaction;
mod signatures;
