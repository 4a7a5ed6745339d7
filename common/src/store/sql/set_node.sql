UPDATE farmhand.node SET cordoned = coalesce($2, cordoned), draining = coalesce($3, draining)
WHERE address = $1
RETURNING address, pg_notify('farmhand', json_build_object('node', address)::text)::text AS note
