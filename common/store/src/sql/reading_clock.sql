SELECT clock_timestamp() AS db_now,
    e.open AS claims_open
FROM farmhand.current_epoch e
