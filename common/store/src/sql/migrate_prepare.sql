CREATE SCHEMA IF NOT EXISTS farmhand;
CREATE TABLE IF NOT EXISTS farmhand.schema_version (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
