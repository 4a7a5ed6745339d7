//! What the importers share: the report, a job that is proposed, names, secrets, and the job file.

mod draft;
mod names;
mod parts;
mod report;
mod secrets;
mod toml_text;
mod write;

pub(crate) use draft::{Draft, LONG};
pub(crate) use names::Names;
pub(crate) use parts::{Part, in_shell, parts};
pub use report::{Import, Imported, Invalid, Machine, Note, Report};
pub(crate) use secrets::{
    MOST, SECRET_COMMAND, Store, argv_without_variables, has_secret, hide_variable, is_secret, secret_note,
    stored, uses, without_variables,
};
pub(crate) use toml_text::{quoted, text_or_list};
pub(crate) use write::Piece;
pub use write::is_unedited;
