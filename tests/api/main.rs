//! The HTTP API of a live agent: what it does, whom it lets in, and what it makes of attacks.

mod actions;
mod attacks;
mod client;
mod fixture;
mod limits;
mod schemathesis;
mod streams;
mod tls;
mod walk;
