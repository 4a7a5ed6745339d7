-- A holder's attempt ends and its run goes on: due again, unless it is to be cancelled or may not be
-- run twice.
WITH given AS MATERIALIZED (
    SELECT DISTINCT ON (g.run_id, g.attempt, g.fence, g.address, g.session) e.value AS ending, g.*
    FROM jsonb_array_elements($1::jsonb) e
    CROSS JOIN LATERAL jsonb_to_record(e.value) AS g(run_id bigint, attempt integer, fence bigint, address text,
        session bigint, outcome text, ran boolean, counts_retry boolean, counts_takeover boolean, delay_ms bigint,
        reason text, started_at timestamptz)
    -- The order of locking.
    ORDER BY g.run_id, g.attempt, g.fence, g.address, g.session
), mine AS MATERIALIZED (
    SELECT l.run, g AS given,
        nullif(farmhand.goes_to((l.run).cancel_requested, (l.run).on_lost, g.ran, (l.run).takeovers, g.counts_takeover),
            'due') AS final
    FROM given g
    -- By its number, each in turn: a join might be done by reading all that is running, once for each end.
    CROSS JOIN LATERAL (
        SELECT r AS run FROM farmhand.run_live r
        WHERE r.run_id = g.run_id AND r.attempt = g.attempt AND r.fence = g.fence
            AND r.running_at IS NOT DISTINCT FROM g.address AND r.session IS NOT DISTINCT FROM g.session
            AND r.state IS NOT DISTINCT FROM 'running'
        LIMIT 1 FOR UPDATE
    ) l
), stat AS (
    -- A start may be told together with its end. Of all jobs that have an end here, in the order of locking: those whose run is
    -- over are counted after this, and have their lock by then.
    INSERT INTO farmhand.job_stat AS s (job_id, last_run_started)
    SELECT (m.run).job_id, max(coalesce((m.given).started_at, (m.run).started_at)) FROM mine m
    GROUP BY (m.run).job_id ORDER BY (m.run).job_id
    ON CONFLICT (job_id) DO UPDATE
        SET last_run_started = greatest(s.last_run_started, excluded.last_run_started)
    RETURNING 1
), gone AS (
    DELETE FROM farmhand.run_live r
    WHERE r.run_id = ANY (ARRAY(SELECT (m.run).run_id FROM mine m WHERE m.final IS NOT NULL))
    RETURNING r.run_id
), again AS (
    UPDATE farmhand.run_live r
    SET state = 'due', running_at = NULL, session = NULL,
        retries = r.retries + (m.given).counts_retry::int,
        takeovers = r.takeovers + (m.given).counts_takeover::int,
        reason = CASE WHEN (m.given).counts_retry THEN 'retry' ELSE (m.given).outcome END,
        -- Only a backoff waits for the server's clock; what is due at once stays as ready as it was.
        ready_at = CASE WHEN (m.given).delay_ms > 0
            THEN statement_timestamp() + (m.given).delay_ms * interval '1 millisecond' ELSE r.ready_at END
    FROM mine m WHERE r.run_id = (m.run).run_id AND m.final IS NULL
    RETURNING r.run_id
), written AS MATERIALIZED (
    SELECT farmhand.write_ends(
        (SELECT array_agg(k) FROM gone o JOIN mine m ON (m.run).run_id = o.run_id
            CROSS JOIN LATERAL farmhand.ended(m.run, m.final,
                CASE m.final WHEN 'failed' THEN 'poison' ELSE coalesce((m.given).reason, m.final) END, 'holder',
                (m.given).ending) k
            WHERE (SELECT count(*) FROM stat) > 0),
        (SELECT array_agg(farmhand.past(m.run, (m.given).outcome, (m.given).reason, 'holder', (m.given).ending))
            FROM again o JOIN mine m ON (m.run).run_id = o.run_id))
)
SELECT (m.run).run_id, (m.run).attempt, (m.run).fence, (m.run).running_at AS address, (m.run).session, (m.run).job_id,
    m.final AS ended,
    CASE WHEN row_number() OVER () = 1 THEN pg_notify('farmhand',
        json_build_object('due', (m.run).run_id, 'job', (m.run).job_id)::text)::text END AS note
FROM mine m CROSS JOIN written
