SELECT p AS name FROM farmhand.drop_partitions($1, $2, $3) p
