//! The first minute: the embedded PostgreSQL, `farmhand dev` with its example jobs, and the doctor.

mod doctor;
mod embedded;
mod examples;
mod farm;
mod running;
