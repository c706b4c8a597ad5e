"""The runtime of LLM agents, on pydantic-ai. Only `definition`, `seed` and `directives` are cheap to import."""
