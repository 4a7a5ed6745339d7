SELECT farmhand.current_timeline() AS timeline,
    EXISTS (SELECT FROM farmhand.timeline t WHERE t.tli = farmhand.current_timeline()) AS timeline_open,
    (SELECT count(*) FROM farmhand.node n WHERE n.open) AS open_nodes,
    ARRAY(SELECT DISTINCT n.version FROM farmhand.node n WHERE n.open ORDER BY n.version) AS versions
