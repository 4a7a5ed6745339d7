//! What sessions and transactions are set to.

use std::time::Duration;

/// Explicit, because default_transaction_isolation may say something else.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// The same behind a pooler, where no setting of a session can stay: what counts of [`SESSION`], until the end of the
/// transaction.
pub(crate) const BEGIN_POOLED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL enable_seqscan = off; \
    SET LOCAL jit = off; SET LOCAL plan_cache_mode = force_generic_plan; \
    SET LOCAL idle_in_transaction_session_timeout = 5000";
/// The settings of a session that leads to a process of its own. A kept plan may have been made when a table was empty, so it
/// never reads a whole table. An agent that is frozen or unreachable in the middle of a transaction is cut off after five
/// seconds: its row locks would make others skip those rows for as long as the server keeps the session. The server sends
/// keepalives after 10 s, where its default is two hours, so that the sessions of a dead machine end as well.
pub(crate) const SESSION: &str = "SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan; \
    SET idle_in_transaction_session_timeout = 5000; SET tcp_user_timeout = 30000; \
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3";
/// For what only reads. No plan may hang on how fresh the statistics are: where an index can serve, it does. Compiling
/// and workers take more from those that claim than they give to a page.
pub(crate) const PLANS: &str =
    "SET LOCAL enable_seqscan = off; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0";

/// A transaction that begins so, and whose statements the server ends after `limit`.
pub(crate) fn bounded(begin: &str, limit: Duration) -> String {
    format!("{begin}; SET LOCAL statement_timeout = {}", limit.as_millis())
}
