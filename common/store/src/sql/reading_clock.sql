SELECT clock_timestamp() AS db_now,
    (SELECT e.open FROM farmhand.current_epoch e) AS claims_open
