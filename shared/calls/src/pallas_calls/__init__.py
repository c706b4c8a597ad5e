"""Makes turns of calls and follows them to their end."""
