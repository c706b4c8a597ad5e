"""The agent `pipelines/constellation` over MCP: tools, resources, prompts and completions."""
