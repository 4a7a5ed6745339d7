SELECT p.prefix || '_' || k.kind AS role
FROM (SELECT current_setting('farmhand.role_prefix')) p(prefix)
CROSS JOIN string_to_table(current_setting('farmhand.role_kinds'), ',') WITH ORDINALITY AS k(kind, nth)
WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = p.prefix || '_' || k.kind)
ORDER BY k.nth
