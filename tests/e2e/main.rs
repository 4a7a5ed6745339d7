//! Whole farms of real agents, one file per feature.

mod running;
