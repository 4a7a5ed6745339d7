SELECT farmhand.renew($1, $2) AS own
