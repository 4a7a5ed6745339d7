//! What is asked of the system: clocks, accounts, processes, the terminal, randomness.

pub mod accounts;
pub mod alarm;
pub mod clock;
pub mod files;
pub mod fork;
pub mod machine;
pub mod memory;
pub mod open_beneath;
pub mod path_hash;
pub mod process;
pub mod random;
pub mod readable;
pub mod reap;
pub mod removal;
pub mod signal;
pub mod terminal;
