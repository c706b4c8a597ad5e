"""Which functions a caller's programs can call: the tools of all agents, and the standard library."""
