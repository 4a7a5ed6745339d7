SELECT run_id FROM farmhand.claim_gated($1, $2, $3, $4) AS run_id
