WITH opened AS (
    INSERT INTO farmhand.timeline (tli, opened_by)
    SELECT $1, $2 WHERE farmhand.current_timeline() = $1
    ON CONFLICT DO NOTHING
)
SELECT farmhand.current_timeline() = $1 AS open
