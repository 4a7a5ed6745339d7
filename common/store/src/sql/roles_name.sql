SELECT set_config('farmhand.role_prefix', $1, true) AS prefix, set_config('farmhand.role_kinds', $2, true) AS kinds
