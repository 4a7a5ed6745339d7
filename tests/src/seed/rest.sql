SELECT setval('farmhand.run_id_seq', :RUNS: + 1000), setval('farmhand.fence_seq', :RUNS: + 1000);

-- What ended without ending its run: retries, and takeovers.
INSERT INTO farmhand.attempt (run_id, job_id, attempt, address, session, fence, claimed_at, started_at, ended_at, outcome,
    ended_by, reason)
SELECT r.run_id, r.job_id, 1, format('node-%s', lpad((1 + (r.run_id + 7) % :NODES:)::text, 4, '0')), 2, r.fence - 1,
    r.claimed_at - interval '60 s', r.claimed_at - interval '59 s', r.claimed_at - interval '1 s',
    CASE WHEN r.run_id % 100 = 0 THEN 'lost' ELSE 'failed' END,
    CASE WHEN r.run_id % 100 = 0 THEN 'takeover' ELSE 'holder' END, NULL
FROM farmhand.run_history r WHERE r.run_id % 50 = 0 AND r.state <> 'skipped';

INSERT INTO farmhand.event (event_id, at, kind, severity, job_id, run_id, attempt, address, session, fence, detail)
SELECT n, statement_timestamp() - (:EVENTS: - n) * (interval '50 days' / :EVENTS:) - interval '10 s',
    (ARRAY['run_ended', 'retry', 'skipped', 'takeover', 'attempt_lost', 'session_opened', 'fenced'])[1 + n % 7],
    CASE WHEN n % 7 = 0 THEN 'warning' WHEN n % 101 = 0 THEN 'error' ELSE 'info' END,
    format('job-%s', lpad((1 + (n * 7919) % :JOBS:)::text, 5, '0')), 1 + (n * 3) % :RUNS:, 1,
    format('node-%s', lpad((1 + n % :NODES:)::text, 4, '0')), 3, n, '{"why": "seeded"}'
FROM generate_series(1, :EVENTS:::bigint) n;
SELECT setval('farmhand.event_id_seq', :EVENTS: + 1);

INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
SELECT :RUNS: - n / 40, 1, (n % 40) * 16000, 'stdout', statement_timestamp(), statement_timestamp(),
    convert_to(repeat(format(E'%s a line of output that says something\n', lpad(n::text, 8, '0')), 348), 'UTF8')
FROM generate_series(0, 399) n;

INSERT INTO farmhand.job_stat (job_id, last_run_started, last_finished, last_state, last_success, consecutive_failures)
SELECT j.job_id, statement_timestamp() - interval '1 h', statement_timestamp() - interval '1 h',
    CASE WHEN n % 400 = 0 THEN 'failed' ELSE 'succeeded' END, statement_timestamp() - interval '1 h',
    CASE WHEN n % 400 = 0 THEN n / 400 ELSE 0 END
FROM (SELECT job_id, row_number() OVER (ORDER BY job_id) AS n FROM farmhand.job) j;

-- What runs and what waits for its time.
INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, due_at, ready_at, state, running_at, session, attempt, fence,
    claimed_at, started_at)
SELECT :RUNS: + n, format('job-%s', lpad((1 + n % :JOBS:)::text, 5, '0')), 2, 'submitted', statement_timestamp(),
    statement_timestamp(), 'running', format('node-%s', lpad((2 + n % (:NODES: - 1))::text, 4, '0')), 3, 1, :RUNS: + n,
    statement_timestamp() - n * interval '1 s', statement_timestamp() - n * interval '1 s'
FROM generate_series(1, 300) n;
INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, due_at, ready_at, placement)
SELECT :RUNS: + 300 + n, format('job-%s', lpad((1 + n % :JOBS:)::text, 5, '0')), 2, 'submitted',
    statement_timestamp() + interval '2 days', statement_timestamp() + interval '2 days', ARRAY['{"role": "nowhere"}'::jsonb]
FROM generate_series(1, 700) n;

ALTER TABLE farmhand.run_history ENABLE TRIGGER USER;
ALTER TABLE farmhand.attempt ENABLE TRIGGER USER;
ANALYZE farmhand.run_history, farmhand.attempt, farmhand.event, farmhand.run_log, farmhand.run_live, farmhand.job,
    farmhand.job_revision, farmhand.job_stat, farmhand.node;
