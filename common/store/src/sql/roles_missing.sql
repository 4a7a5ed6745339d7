SELECT $1 || '_' || k.kind AS role
FROM unnest(ARRAY['owner', 'agent', 'submitter', 'operator', 'viewer']) WITH ORDINALITY AS k(kind, nth)
WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = $1 || '_' || k.kind)
ORDER BY k.nth
