SELECT b.address, b.login, b.bound_by, b.bound_at,
    -- No node of this name has been here yet.
    NOT EXISTS (SELECT FROM farmhand.node n WHERE n.address = b.address) AS unseen,
    EXISTS (SELECT FROM pg_roles r WHERE r.rolname = b.login AND r.rolcanlogin) AS can_log_in
FROM farmhand.node_login b
ORDER BY b.address
