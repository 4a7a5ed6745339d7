-- Asked as a prepared statement, about itself: whether a pooler has given it a name of its own on the server. Ours would be there as it is.
-- $1: the text of this statement.
SELECT count(*) > 0 AND bool_and(name !~ '^s[0-9]+$') AS kept FROM pg_prepared_statements WHERE statement = $1
