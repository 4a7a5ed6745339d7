//! What sessions and transactions are set to.

/// Explicit, because default_transaction_isolation may say something else.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// The same behind a pooler, where no setting of a session can stay: what counts of [`SESSION`], until the end of the
/// transaction.
pub(crate) const BEGIN_POOLED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL enable_seqscan = off; \
    SET LOCAL jit = off; SET LOCAL plan_cache_mode = force_generic_plan; \
    SET LOCAL idle_in_transaction_session_timeout = 5000";
/// What a session of its own is set to. A plan that is kept was made when a table may have been empty: never by reading all
/// of it. And who falls silent in the middle of a transaction, because it was frozen or cannot be reached, holds nobody's
/// rows for longer than five seconds: those who skip what is locked would leave them alone for as long as the server
/// believes in it. A machine that is gone leaves no sessions behind: the server asks after 10 s, where its default is two hours.
pub(crate) const SESSION: &str = "SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan; \
    SET idle_in_transaction_session_timeout = 5000; SET tcp_user_timeout = 30000; \
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3";
/// For what only reads. No plan may hang on how fresh the statistics are: where an index can serve, it does. Compiling
/// and workers take more from those that claim than they give to a page.
pub(crate) const PLANS: &str =
    "SET LOCAL enable_seqscan = off; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0";
