-- The keys of this node have changed: what it would not run before, it may now.
DELETE FROM farmhand.refusal f WHERE f.address = $1 RETURNING f.rev
