"""Data agents: hosts them, and calls functions as their orchestrator does."""
