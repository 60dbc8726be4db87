"""Plans: how one signature converts to another, and how C passes the values of a call."""
