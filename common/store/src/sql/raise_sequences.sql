SELECT farmhand.raise_sequences($1)::text AS raised
