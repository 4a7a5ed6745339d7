INSERT INTO farmhand.node (address, name, session, incarnation, open, ttl_ms, lease_until, slots, labels, version, started_at,
    lost_at)
SELECT format('node-%s', lpad(n::text, 4, '0')), format('node-%s', n), 3, gen_random_uuid(), n > 1, 30000,
    statement_timestamp() + interval '1 day', 16, jsonb_build_object('role', CASE n % 3 WHEN 0 THEN 'web' ELSE 'batch' END),
    '0.1.0', statement_timestamp() - interval '20 days', CASE WHEN n = 1 THEN statement_timestamp() - interval '1 hour' END
FROM generate_series(1, :NODES:) n;

INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at)
SELECT format('job-%s', lpad(n::text, 5, '0')), r, jsonb_build_object('schedule', jsonb_build_array(format('%s %s * * *',
        n % 60, n % 24)), 'timezone', CASE n % 4 WHEN 0 THEN 'Europe/Berlin' ELSE 'UTC' END,
    'command', jsonb_build_array('backup', '--of', format('host-%s', n)), 'timeout', 60000 + r, 'dst', 'once',
    'overlap', 'skip', 'catch_up', jsonb_build_object('runs', 'latest', 'max', 100), 'instances', CASE WHEN n % 50 = 0 THEN 8 ELSE 1 END,
    'triggered_by', '[]'::jsonb, 'enabled', true),
    'jobs.toml', 'seed', statement_timestamp() - (10 - r) * interval '6 days'
FROM generate_series(1, :JOBS:) n, generate_series(1, 2) r;

INSERT INTO farmhand.job (job_id, rev, seq, kind, enabled, paused, paused_by, paused_at, scheduled, next_run, overlap, on_lost,
    priority, instances, each_node, source, applied_by, applied_at, placement)
SELECT format('job-%s', lpad(n::text, 5, '0')), 2, n, 'scheduled', n % 97 <> 0, n % 89 = 0, CASE WHEN n % 89 = 0 THEN 'somebody' END,
    CASE WHEN n % 89 = 0 THEN statement_timestamp() END, true, statement_timestamp() + interval '1 day' + n * interval '5 s',
    'skip', 'rerun', 0, CASE WHEN n % 50 = 0 THEN 8 ELSE 1 END, false, 'jobs.toml', 'seed',
    statement_timestamp() - interval '48 days', CASE n % 3 WHEN 0 THEN ARRAY['{"role": "web"}'::jsonb] END
FROM generate_series(1, :JOBS:) n;
UPDATE farmhand.job_seq SET seq = :JOBS:;
