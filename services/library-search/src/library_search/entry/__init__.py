"""What is heard: MCP, and documents from admins."""
