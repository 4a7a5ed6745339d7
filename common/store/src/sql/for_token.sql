-- Until the end of the transaction.
SELECT set_config('farmhand.token', $1::text, true) AS token
