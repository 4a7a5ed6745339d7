SELECT made, room, more, busy, unwritten, problem FROM farmhand.dispatch_rows($1)
