SELECT answer FROM farmhand.api_once WHERE token_id = $1 AND action = $2 AND key = $3
