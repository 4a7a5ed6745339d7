//! The HTTP API of a live agent: what it does, whom it lets in, and what it makes of attacks.

#![recursion_limit = "256"]

mod actions;
mod attacks;
mod away;
mod client;
mod days;
mod definitions;
mod definitions_login;
mod document;
mod fixture;
mod guide;
mod limits;
mod many;
mod matches;
mod prefix;
mod proxied;
mod restricted;
mod same_json;
mod schemathesis;
mod streams;
mod tls;
mod told;
mod walk;
