-- Prepared, it asks about itself: whether the pooler renamed it on the server. Names of the driver are s and a number.
-- $1: the text of this statement.
SELECT count(*) > 0 AND bool_and(name !~ '^s[0-9]+$') AS kept FROM pg_prepared_statements WHERE statement = $1
