SELECT clock_timestamp() AS db_now,
    e.open AS claims_open, e.held_ms
FROM farmhand.current_epoch e
