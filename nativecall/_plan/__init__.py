"""Call plans: how C passes the values of a call, and what the core does to make one."""
