SELECT a.fence, a.held, (extract(epoch FROM a.held_ttl) * 1000)::bigint AS held_ttl_ms
FROM farmhand.try_acquire($1, $2 * interval '1 millisecond', $3) a
