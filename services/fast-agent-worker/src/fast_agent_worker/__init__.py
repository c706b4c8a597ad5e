"""A worker whose runtime is fast-agent."""
