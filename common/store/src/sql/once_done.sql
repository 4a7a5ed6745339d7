SELECT action FROM farmhand.api_once WHERE token_id = $1 AND action = ANY ($2) AND key = $3
