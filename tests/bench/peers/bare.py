"""The floor of HTTP: Starlette answering a constant JSON body."""

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.bench.peers.serving import serve


async def hello(_request: Request) -> JSONResponse:
    """Answer."""
    return JSONResponse({"hello": "world"})


if __name__ == "__main__":
    serve(Starlette(routes=[Route("/", hello)]), int(sys.argv[1]))
