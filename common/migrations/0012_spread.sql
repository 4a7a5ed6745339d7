-- The first rounds of a continuous job are left to the nodes in turn for three seconds, as shards are: a number that
-- says with which node that begins, as the firing does for shards. NULL: the round is anybody's.
ALTER TABLE farmhand.run_live ADD COLUMN spread bigint;
