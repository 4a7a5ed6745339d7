SELECT farmhand.ends_promote(coalesce(array_agg(j.job_id) FILTER (WHERE j.overlap = 'queue'), '{}'),
        coalesce(array_agg(j.job_id) FILTER (WHERE j.overlap = 'replace'), '{}'))::text
FROM farmhand.job j
WHERE j.job_id = ANY ($1) AND j.overlap IN ('queue', 'replace')
HAVING count(*) > 0
