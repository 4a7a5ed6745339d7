SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS kind,
    CASE WHEN t.oid IN ('smallint'::regtype, 'integer'::regtype) THEN 'i' ELSE t.typcategory::text END AS category,
    NOT a.attnotnull AS nullable, a.attgenerated <> '' OR a.attidentity = 'a' AS generated,
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
        AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) AS "unique",
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indnkeyatts > 1
        AND a.attnum = ANY ((i.indkey::smallint[])[0:i.indnkeyatts - 1])) AS "primary"
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type b ON b.oid = a.atttypid
JOIN pg_type t ON t.oid = CASE WHEN b.typtype = 'd' THEN b.typbasetype ELSE b.oid END
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')
ORDER BY a.attnum
