"""Calls agents over MCP, whatever serves them."""
