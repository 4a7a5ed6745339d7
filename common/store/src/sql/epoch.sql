SELECT d.farm_id, d.epoch, d.id, d.open, e.opened_at, e.opened_by, e.server, e.system_id::text AS cluster,
    d.server AS server_now, farmhand.system_id()::text AS cluster_now, d.fence, d.longest_lease_ms, f.seen_epoch,
    -- The first epoch follows none; a bump is no guess.
    coalesce(d.epoch - b.epoch >= 64 AND b.server NOT LIKE 'bumped %' AND e.server NOT LIKE 'bumped %', false) AS guessed,
    (SELECT count(*) FROM farmhand.node n WHERE n.open AND n.lease_until > statement_timestamp()) AS open_nodes
FROM farmhand.database d
JOIN farmhand.epoch e ON e.id = d.id
CROSS JOIN farmhand.farm f
LEFT JOIN farmhand.epoch b ON b.id = e.follows
