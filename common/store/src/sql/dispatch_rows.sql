SELECT made, room, more, busy, unwritten, keyless, problem FROM farmhand.dispatch_rows($1)
