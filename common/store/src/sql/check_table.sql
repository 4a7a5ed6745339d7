SELECT problem, mend, fatal FROM farmhand.check_table($1)
