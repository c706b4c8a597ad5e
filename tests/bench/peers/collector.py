"""A collector that takes every span and keeps none."""

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.bench.peers.serving import serve


async def take(request: Request) -> Response:
    """Receive a batch."""
    await request.body()
    return Response(media_type="application/x-protobuf")


if __name__ == "__main__":
    serve(Starlette(routes=[Route("/v1/traces", take, methods=["POST"])]), int(sys.argv[1]))
