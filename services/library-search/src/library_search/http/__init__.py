"""HTTP: `/mcp` for callers with a bearer, and documents from admins."""
