"""Executes turns of data agents: calls the agent, checks its answer, and says how the turn ended."""
