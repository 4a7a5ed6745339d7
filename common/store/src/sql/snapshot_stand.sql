SELECT holder, beat FROM farmhand.snapshot_lease
