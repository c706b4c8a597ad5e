"""The terminal of a coding agent, as AgentAPI serves it."""
