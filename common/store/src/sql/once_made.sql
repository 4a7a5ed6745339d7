SELECT answer FROM farmhand.api_once WHERE token_id = $1 AND key = $2 AND action LIKE 'retry %' AND answer = ANY ($3)
