INSERT INTO farmhand.schema_version (version, name, checksum) VALUES ($1, $2, $3)
RETURNING version, name, checksum, applied_at
