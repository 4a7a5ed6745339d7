SELECT clock_timestamp() AS db_now,
    EXISTS (SELECT FROM farmhand.timeline WHERE tli = farmhand.current_timeline()) AS timeline_open
