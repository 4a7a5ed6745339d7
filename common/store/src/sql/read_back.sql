-- Where runs stand, and the attempts that their own holders ended.
SELECT s.run_id, s.state, s.attempt, s.address, s.session,
    (SELECT coalesce(jsonb_agg(jsonb_build_object(
            'attempt', o.attempt, 'fence', o.fence, 'address', o.address, 'session', o.session,
            'ended', o.ended)), '[]')
        FROM (SELECT h.attempt, h.fence, h.running_at AS address, h.session,
                  -- As finish ends a run that was to go on.
                  CASE WHEN h.state IN ('cancelled', 'lost') OR h.reason = 'poison' THEN h.state END AS ended
              FROM farmhand.run_history h
              WHERE h.run_id = s.run_id AND h.ended_by = 'holder'
              UNION ALL
              SELECT a.attempt, a.fence, a.address, a.session, NULL FROM farmhand.attempt a
              WHERE a.run_id = s.run_id AND a.ended_by = 'holder') o) AS own_ends
FROM (
    SELECT r.run_id, r.state, r.attempt, r.running_at AS address, r.session
    FROM farmhand.run_live r WHERE r.run_id = ANY ($1)
    UNION ALL
    SELECT h.run_id, h.state, h.attempt, NULL, NULL
    FROM farmhand.run_history h WHERE h.run_id = ANY ($1)
) s
