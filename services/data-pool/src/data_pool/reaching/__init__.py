"""How agents are called: over the WebSocket that they opened, or at an endpoint, by JSON-RPC or by MCP."""
