//! PostgreSQL: one function per statement in `sql/`.
