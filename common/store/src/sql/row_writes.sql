SELECT ids, writes FROM farmhand.row_writes($1, $2)
