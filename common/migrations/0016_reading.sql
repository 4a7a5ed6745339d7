-- What pages look for. As few as possible: every end of a run writes each index that its row belongs to.

-- By time: the lanes of nodes, and runs that ended within a stretch of time. Ends come in order, so it only grows at
-- its right edge.
CREATE INDEX run_history_finished ON farmhand.run_history (finished_at);
-- Those that lasted long may have ended long after the stretch that is looked at; few runs are in it.
CREATE INDEX run_history_long ON farmhand.run_history (finished_at) WHERE finished_at - claimed_at > interval '10 minutes';
-- What went wrong is what people look for, and most runs do not.
CREATE INDEX run_history_bad ON farmhand.run_history (state, run_id DESC) WHERE state <> 'succeeded';
CREATE INDEX attempt_ended ON farmhand.attempt (ended_at);
