"""Plans: how one signature becomes another, and how C passes the values of a call."""
