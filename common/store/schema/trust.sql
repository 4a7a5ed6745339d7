-- Who vouches for definitions, and who would not run them.

-- Who vouches for a revision. The document is the very text that was signed: nodes that ask for signatures execute
-- what it says, and nothing else in this database.
CREATE TABLE farmhand.job_signature (
    job_id text NOT NULL,
    rev bigint NOT NULL,
    document text NOT NULL CHECK (octet_length(document) <= 4194304),
    key_name text NOT NULL CHECK (octet_length(key_name) <= 200),
    signature text NOT NULL CHECK (octet_length(signature) <= 200),
    stored_by text NOT NULL,
    stored_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, rev),
    FOREIGN KEY (job_id, rev) REFERENCES farmhand.job_revision
);

-- Which node would not run which revision, and why: so that the last of those who could run it says so at once,
-- and for people.
CREATE TABLE farmhand.refusal (
    job_id text NOT NULL,
    rev bigint NOT NULL,
    address text NOT NULL,
    why text NOT NULL,
    runs bigint NOT NULL DEFAULT 1,
    first_at timestamptz NOT NULL,
    at timestamptz NOT NULL,
    -- Of the runs that it was noted with, which are all of the revision.
    placement jsonb[],
    PRIMARY KEY (job_id, rev, address)
);
CREATE INDEX refusal_by_node ON farmhand.refusal (address, at);

-- The revisions, as "REV JOB", that this node has refused in the last ten minutes while another that fits and asks for
-- runs has not. The same condition for all nodes: of those that could run one, there is always one that does not leave it alone.
-- Asked by every claim, hence in a language that keeps what it has planned; mostly one probe that finds nothing.
CREATE FUNCTION farmhand.left_to_others(own text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    since timestamptz := statement_timestamp() - interval '10 minutes';
BEGIN
    IF NOT EXISTS (SELECT FROM farmhand.refusal f WHERE f.address = own AND f.at > since) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT f.rev || ' ' || f.job_id
        FROM farmhand.refusal f
        WHERE f.address = own AND f.at > since AND EXISTS (
            SELECT FROM farmhand.node n
            WHERE farmhand.takes_work(n, NULL, f.placement) AND n.address <> own
                AND NOT EXISTS (SELECT FROM farmhand.refusal o
                    WHERE o.job_id = f.job_id AND o.rev = f.rev AND o.address = n.address AND o.at > since))
        ORDER BY f.at DESC
        LIMIT 1000);
END
$$;
