SELECT made, room, more, busy, problem FROM farmhand.dispatch_rows($1)
