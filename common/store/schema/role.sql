-- Who may do what is in store/sql/roles_grant.sql, which `farmhand migrate` runs whole each time.

-- Roles belong to the cluster, farms to databases: two farms of one cluster that shall not share their members have
-- different prefixes.
CREATE TABLE farmhand.role_prefix (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    prefix text NOT NULL CHECK (prefix ~ '^[a-z_][a-z0-9_]{0,39}$')
);
