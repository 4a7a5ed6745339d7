SELECT farmhand.server() AS server
