"""What callers can do besides executing: check, list, store. Answers are JSON objects, the same over MCP and HTTP."""
