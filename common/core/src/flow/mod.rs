//! Flows: tasks with dependencies, from annotated scripts, functions of a shell file, or pairs of names.

mod course;
#[cfg(test)]
mod course_tests;
mod facilities;
mod functions;
mod lsb;
mod names;
mod numbered;
mod rcorder;
mod scripts;
mod task;
#[cfg(test)]
mod tests;
mod tsort;

pub use course::{Again, Course, Deadlock, End};
pub use facilities::Facilities;
pub use functions::{doubtful_functions, functions};
pub use names::encode_name;
pub use rcorder::is_annotation;
pub use scripts::{Script, Selection, doubtful, scripts};
pub use task::{Action, Direction, Extras, Malformed, Task};
pub use tsort::add_pairs;
