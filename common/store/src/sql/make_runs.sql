SELECT * FROM farmhand.make_runs($1, ARRAY(SELECT w FROM json_populate_recordset(NULL::farmhand.want, $2) w))
