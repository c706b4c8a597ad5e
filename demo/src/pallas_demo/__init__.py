"""The demo team's MCP server, run as `python -m pallas_demo`; beside it the demo's data agents and a Coder stand-in."""
