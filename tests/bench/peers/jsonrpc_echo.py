"""The same function behind fastapi-jsonrpc, which calls it in process and keeps no log: `... PORT`."""

import sys
from typing import Annotated, Any

import fastapi_jsonrpc
from fastapi import Body
from tests.bench.peers.serving import serve

app = fastapi_jsonrpc.API()
entrypoint = fastapi_jsonrpc.Entrypoint("/rpc")


@entrypoint.method(name="agent.execute")
def execute(
    agent_id: Annotated[str, Body()],
    function: Annotated[str, Body()],
    message: Annotated[dict[str, str], Body(alias="input")],
    meta: Annotated[dict[str, Any], Body()],
) -> dict[str, str]:
    """Echo."""
    return {"echo": message["message"]}


app.bind_entrypoint(entrypoint)

if __name__ == "__main__":
    serve(app, int(sys.argv[1]))
