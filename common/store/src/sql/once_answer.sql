UPDATE farmhand.api_once SET answer = $4 WHERE token_id = $1 AND action = $2 AND key = $3
