SELECT token_id FROM farmhand.begin_session($1, $2, $3, $4) AS token_id
