//! How large the farms are that the model explores whole; the simulation has a larger one.

pub const HOSTS: usize = 2;
pub const ADDRESSES: usize = 2;
pub const RUNS: usize = 2;
