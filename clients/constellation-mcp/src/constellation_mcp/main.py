"""`constellation-mcp`: the MCP server, and with `lsp` the language server."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from constellation_mcp.configuration import BadConfiguration, Configuration, load


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the client leaves or a signal comes. The exit code is 2 if the configuration is wrong."""
    parser = argparse.ArgumentParser("constellation-mcp", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["mcp", "lsp"], default="mcp", help="what to serve (mcp)")
    parser.add_argument("--config", type=Path, help="a configuration file in place of constellation-mcp.json")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--http", type=int, metavar="PORT", help="serve Streamable HTTP at 127.0.0.1:PORT/mcp")
    ways.add_argument("--sse", type=int, metavar="PORT", help="serve the older SSE at 127.0.0.1:PORT/sse")
    given = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for noisy in ("httpx2", "httpcore2", "mcp", "pygls"):  # they would log the address of the service
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        configuration = load(given.config, os.environ)
    except BadConfiguration as error:
        parser.exit(2, f"constellation-mcp: {error}\n")
    if given.command == "lsp":
        from constellation_mcp.language_server import PipelineLanguageServer

        PipelineLanguageServer(configuration).server.start_io()
    else:
        asyncio.run(_serve(configuration, given))


async def _serve(configuration: Configuration, given: argparse.Namespace) -> None:
    from constellation_mcp.server import ConstellationServer
    from constellation_mcp.service import connect
    from constellation_mcp.transports import serve_http, serve_sse, serve_stdio

    async with connect(configuration) as service:
        server = ConstellationServer(service).server
        if given.http is not None:
            await serve_http(server, given.http)
        elif given.sse is not None:
            await serve_sse(server, given.sse)
        else:
            await serve_stdio(server)
