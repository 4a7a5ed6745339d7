SELECT set_config('farmhand.role_prefix', $1, true) AS prefix
