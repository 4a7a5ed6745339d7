INSERT INTO farmhand.notification (target, channel, topic, key, body)
SELECT $1, c, 'test', 'test/' || gen_random_uuid(), $3 FROM unnest($2) AS c
RETURNING id
