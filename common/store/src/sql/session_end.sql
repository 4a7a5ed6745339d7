SELECT farmhand.end_session($1)::text AS ended
