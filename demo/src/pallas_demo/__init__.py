"""The demo team's MCP server, run as `python -m pallas_demo`."""
