"""The log of turns as operators see it, while the broker is at hand."""
