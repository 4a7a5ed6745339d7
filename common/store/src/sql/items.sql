-- In the order of the list, a page after $2.
SELECT s.item, s.outcome, s.of_run, s.attempt, s.address, s.failures, encode(s.line, 'hex') AS line, s.started_at,
    s.ended_at, s.exit_code, s.signal, s.reason, encode(s.output, 'hex') AS output,
    p.run_id AS replayed_by, p.outcome AS replay
FROM farmhand.stream_item s
LEFT JOIN farmhand.stream_item p ON p.of_run = s.run_id AND p.item = s.item
WHERE s.run_id = $1 AND s.item > $2 AND ($3::bigint[] IS NULL OR s.item = ANY ($3))
    AND (NOT $4 OR s.outcome IN ('failed', 'timed_out', 'refused'))
ORDER BY s.item
LIMIT $5
