"""Folders of fast-agent teams: what can be known of them without running their code."""
