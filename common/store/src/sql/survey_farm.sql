SELECT (SELECT count(*) FROM farmhand.node n WHERE n.open) AS open_nodes,
    ARRAY(SELECT DISTINCT n.version FROM farmhand.node n WHERE n.open ORDER BY n.version) AS versions
