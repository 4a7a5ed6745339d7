SELECT clock_timestamp() AS db_now
