"""Hosts agents: those of team folders, and those written in Python."""
