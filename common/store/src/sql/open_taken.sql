SELECT jsonb_build_object('session', session, 'incarnation', incarnation, 'renewals', renewals, 'ttl_ms', ttl_ms, 'machine', machine,
    'server', farmhand.server()) AS holder, (SELECT e.open FROM farmhand.current_epoch e) AS claims_open
FROM farmhand.node WHERE address = $1 AND open
