"""The runtime of LLM agents, on pydantic-ai. `teams` imports it for agents with a model only, since that takes long."""
