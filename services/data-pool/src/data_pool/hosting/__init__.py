"""Which agents this replica hosts, what is wrong with them, and which are forgotten."""
