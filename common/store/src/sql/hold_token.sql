SELECT token_id FROM farmhand.hold_token($1) AS token_id
