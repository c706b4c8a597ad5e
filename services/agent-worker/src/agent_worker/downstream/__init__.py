"""Pooled clients of the MCP servers that agents call: one for each server and credential, shared by all turns."""
