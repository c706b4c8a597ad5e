"""A local MCP server and language server for pipelines. It keeps no state: that is the Constellation service's."""
