SELECT farmhand.ends_promote($1, '{}')::text
