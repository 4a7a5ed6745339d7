SELECT clock_timestamp() AS db_now,
    EXISTS (SELECT FROM farmhand.epoch WHERE server = (SELECT farmhand.server())) AS claims_open
