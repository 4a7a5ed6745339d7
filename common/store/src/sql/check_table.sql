SELECT problem, fix, fatal FROM farmhand.check_table($1)
