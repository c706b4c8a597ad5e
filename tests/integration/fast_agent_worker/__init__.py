"""Turns of fast-agent teams, in a worker's process. A package, so that its stage ends with its last test."""
