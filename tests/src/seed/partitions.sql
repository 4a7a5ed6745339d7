-- Those of the eight weeks before this one; migrate made this one's and later ones.
SET timezone = 'UTC';
DO $$
DECLARE
    parent text;
    week timestamptz;
BEGIN
    FOREACH parent IN ARRAY ARRAY['run_history', 'attempt', 'run_log', 'event'] LOOP
        FOR n IN 1..8 LOOP
            week := date_trunc('week', statement_timestamp()) - n * interval '7 days';
            EXECUTE format('CREATE TABLE IF NOT EXISTS farmhand.%I PARTITION OF farmhand.%I FOR VALUES FROM (%L) TO (%L)',
                parent || '_' || to_char(week, 'YYYYMMDD'), parent, week, week + interval '7 days');
        END LOOP;
    END LOOP;
END
$$;
ALTER TABLE farmhand.run_history DISABLE TRIGGER USER;
ALTER TABLE farmhand.attempt DISABLE TRIGGER USER;
