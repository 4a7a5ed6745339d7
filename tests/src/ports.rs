//! Ports for servers that are told theirs.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that the kernel gives to whoever asks for any, so that no connection takes one meanwhile.
const FIRST: u32 = 20_000;
const PORTS: u32 = 12_700;

/// A port on the loopback that is free now and was not given before by this process, nor lately by one beside it.
///
/// # Panics
/// When none is free.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id().wrapping_mul(53);
    let ports = std::iter::repeat_with(|| own.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % PORTS);
    let free = ports
        .take(PORTS as usize)
        .filter_map(|n| u16::try_from(FIRST + n).ok())
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port on the loopback")
}
