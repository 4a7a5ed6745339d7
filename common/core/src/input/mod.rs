//! What an engine is handed on its standard input.

pub mod flow;
pub mod stream;
