SELECT to_regclass('farmhand.role_prefix') IS NOT NULL AS known
