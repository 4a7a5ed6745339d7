DELETE FROM farmhand.acknowledgement a WHERE a.until <= statement_timestamp()
