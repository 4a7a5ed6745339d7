SELECT p AS name FROM farmhand.ensure_partitions($1) p
