SELECT k.token_id, k.name, k.role, k.hash, k.standing, k.jobs FROM farmhand.known_credential($1, true) k
