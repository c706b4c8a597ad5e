"""Whether a dependency answers: MCP servers and providers of models."""
