DELETE FROM farmhand.web_session WHERE hash = $1
