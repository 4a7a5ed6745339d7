SELECT version, name, checksum, applied_at FROM farmhand.schema_version ORDER BY version
