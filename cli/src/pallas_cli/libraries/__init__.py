"""Documents on this machine, and their upload to the library search."""
