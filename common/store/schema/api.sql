-- The HTTP API and its page: who may ask. Only hashes are stored: reading this table gives nobody a way in.
CREATE TABLE farmhand.api_token (
    token_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    -- SHA-256 of the token's text.
    hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    role text NOT NULL CHECK (role IN ('viewer', 'submitter', 'operator', 'admin')),
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    -- To the minute.
    last_used_at timestamptz,
    revoked_at timestamptz,
    CHECK (expires_at > created_at)
);

-- A name stands for one token that is good, so that what is written down about it is about nobody else.
CREATE UNIQUE INDEX api_token_name ON farmhand.api_token (name) WHERE revoked_at IS NULL;

-- A browser that showed a token once. It is good for as long as its token is, and no longer than a day.
CREATE TABLE farmhand.web_session (
    hash bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    token_id bigint NOT NULL REFERENCES farmhand.api_token ON DELETE CASCADE,
    remote text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX web_session_token ON farmhand.web_session (token_id);
CREATE INDEX web_session_end ON farmhand.web_session (expires_at);

-- Answers to actions that must not be done twice and that `submission` does not remember.
CREATE TABLE farmhand.api_once (
    -- The token, what was asked, and the key that the caller gave.
    token_id bigint NOT NULL REFERENCES farmhand.api_token ON DELETE CASCADE,
    action text NOT NULL,
    key text NOT NULL,
    answer bigint,
    at timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (token_id, action, key)
);
CREATE INDEX api_once_at ON farmhand.api_once (at);
