"""The official conformance suites of MCP, and its inspector, against one stack."""
