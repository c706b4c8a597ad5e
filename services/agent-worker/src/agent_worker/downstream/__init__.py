"""Pooled clients of the MCP servers that agents call: one per address and credential, shared by all turns."""
