-- A parameter becomes one argument or variable, of which the kernel takes 128 KiB: what is larger is refused when it is
-- submitted, and not by the attempt that cannot begin. Otherwise as before (0011).
CREATE OR REPLACE FUNCTION farmhand.param_wrong(kind text, given jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT CASE kind
    WHEN 'integer' THEN CASE WHEN CASE WHEN jsonb_typeof(given) <> 'number' THEN false
            WHEN given::text !~ '^-?[0-9]+$' THEN false
            ELSE given::text::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 END
        THEN NULL ELSE 'Write a whole number of 64 bits, without quotes: 5.' END
    WHEN 'number' THEN CASE WHEN CASE WHEN jsonb_typeof(given) <> 'number' THEN false
            ELSE abs(given::text::numeric) <= 1e308 END
        THEN NULL ELSE 'Write a number of at most 1e308, without quotes: 2.5.' END
    WHEN 'boolean' THEN CASE WHEN jsonb_typeof(given) = 'boolean'
        THEN NULL ELSE 'Write true or false, without quotes.' END
    WHEN 'duration' THEN CASE WHEN jsonb_typeof(given) = 'string' AND farmhand.is_duration(given #>> '{}')
        THEN NULL ELSE 'Write a string such as "5m" or "1h30m": numbers with the units w d h m s ms, the largest first.' END
    WHEN 'date' THEN CASE WHEN jsonb_typeof(given) = 'string' AND farmhand.is_date(given #>> '{}')
        THEN NULL ELSE 'Write a string such as "2026-12-31".' END
    WHEN 'string' THEN CASE WHEN jsonb_typeof(given) <> 'string' THEN 'Write a string in double quotes.'
        WHEN octet_length(given #>> '{}') > 65536
            THEN 'Write a string of at most 65536 bytes; put what is longer into a file or a table, and give its name.' END
    ELSE format('This version of the schema knows no parameters of type %s.', kind) END
$$;
