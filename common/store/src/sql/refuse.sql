-- Remembers that this node will not run the revision of a run it holds, and says whether another might.
WITH held AS MATERIALIZED (
    SELECT r.job_id, r.rev, r.node, r.placement FROM farmhand.run_live r
    WHERE r.run_id = $1 AND r.attempt = $2 AND r.running_at = $3 AND r.state = 'running'
), noted AS (
    INSERT INTO farmhand.refusal AS f (job_id, rev, address, why, first_at, at, placement)
    SELECT h.job_id, h.rev, $3, left($4, 1000), statement_timestamp(), statement_timestamp(), h.placement FROM held h
    ON CONFLICT (job_id, rev, address) DO UPDATE
        SET why = excluded.why, at = excluded.at, placement = excluded.placement, runs = f.runs + 1
), old AS (
    DELETE FROM farmhand.refusal f WHERE f.at < statement_timestamp() - interval '1 day' AND f.address = $3
        AND NOT EXISTS (SELECT FROM held h WHERE h.job_id = f.job_id AND h.rev = f.rev)
)
SELECT EXISTS (
    SELECT FROM held h
    JOIN farmhand.node n ON farmhand.takes_work(n, h.node, h.placement) AND n.address <> $3
    WHERE NOT EXISTS (SELECT FROM farmhand.refusal f
        WHERE f.job_id = h.job_id AND f.rev = h.rev AND f.address = n.address
            AND f.at > statement_timestamp() - interval '10 minutes')
) AS others
