//! Measurements, each with the command that repeats it in its first line. None of them runs with the tests.

mod submit;
