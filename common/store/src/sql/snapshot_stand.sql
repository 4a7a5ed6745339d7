SELECT holder, renewals FROM farmhand.snapshot_lease
