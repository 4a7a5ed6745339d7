SELECT prefix FROM farmhand.role_prefix
