SELECT f.client, f.login FROM farmhand.free_lease($1, $2) f WHERE f.login IS NOT NULL
