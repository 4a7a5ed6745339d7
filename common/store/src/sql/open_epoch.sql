-- Names what was watched, so that of two agents one opens. $4: the highest epoch that the agent remembers; one that remembers
-- nothing leaves room for what it cannot know of.
INSERT INTO farmhand.epoch (epoch, server, system_id, opened_by)
SELECT CASE WHEN $4 > 0 THEN greatest(d.epoch, $4) + 1 ELSE d.epoch + 64 END, d.server, farmhand.system_id(), $3
FROM farmhand.database d
WHERE d.id = $1 AND d.server = $2 AND NOT d.open
ON CONFLICT DO NOTHING
RETURNING epoch
