"""Programs: their source, checked against the modules of a caller."""
