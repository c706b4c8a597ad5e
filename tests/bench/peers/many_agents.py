"""Many agents that are well, at `/agents/NAME/mcp` of one process. `/asked` is how often their health was asked for."""

import json
import sys

import mcp_types as types
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from tests.bench.peers.serving import Context, sdk_app, serve, text_result


def make_app() -> Starlette:
    """The application."""
    asked = 0

    async def call(_context: Context, _params: types.CallToolRequestParams) -> types.CallToolResult:
        nonlocal asked
        asked += 1
        return text_result(json.dumps({"status": "ok"}))

    async def how_often(_request: Request) -> JSONResponse:
        return JSONResponse(asked)

    app = sdk_app("get_health", call, "/agents/{name}/mcp", stateless=False)
    app.add_route("/asked", how_often)
    return app


if __name__ == "__main__":
    serve(make_app(), int(sys.argv[1]))
