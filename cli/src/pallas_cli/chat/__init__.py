"""A conversation with one agent on a terminal."""
