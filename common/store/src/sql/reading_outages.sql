-- Each agent records when it reached the database again, and how long it had not.
SELECT e.address AS node, e.at - (e.detail ->> 'away_ms')::bigint * interval '1 millisecond' AS "from", e.at AS "to"
FROM farmhand.event e
WHERE e.kind = 'database_back' AND e.at >= $1 AND e.at < $2 AND e.address IS NOT NULL
    AND (cardinality($3::text[]) = 0 OR e.address = ANY ($3))
ORDER BY e.at DESC
LIMIT 500
