"""Starts the demo server on loopback (Streamable HTTP, path `/mcp`) or on stdin and stdout (`--stdio`).

Logs go to stderr in both modes, because stdout carries the protocol.
"""

import argparse
import logging
import sys

import anyio

from pallas_demo.server import build_server

DEFAULT_PORT = 23064
LOOPBACK = "127.0.0.1"


async def _serve_http(host: str, port: int) -> None:
    """Serve until a signal. Open streams have one second to end, so that a restart is fast."""
    import uvicorn

    app = build_server().streamable_http_app(host=host)
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="pallas-demo", description="The demo team's MCP server")
    parser.add_argument("--host", default=LOOPBACK, help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port to listen on (default: %(default)s)")
    parser.add_argument("--stdio", action="store_true", help="serve on stdin and stdout instead")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s %(message)s")
    logging.getLogger("pallas_demo").setLevel(logging.INFO)
    if options.stdio:
        anyio.run(build_server().run_stdio_async)
    else:
        anyio.run(_serve_http, options.host, options.port)


if __name__ == "__main__":
    main()
