"""A model behind an OpenAI-compatible address whose answer follows from the request alone.

So two runs that send the same requests get the same answers; it keeps every request, to compare them. It calls the
first tool once (the model `loops`: 25 times), unless that asks a person, fills in a schema where one is asked for, and
else answers with a number that stands for the request.
"""

import hashlib
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

type Json = dict[str, Any]

_AGENT = re.compile(r'(?:agent name|"agent"|"name")[=:] ?"([^"]+)"')


class Model:
    """The requests so far, the callers that have connected, and the address."""

    def __init__(self, url: str, requests: list[Json], connected: list[Any]) -> None:
        self.url = url
        self.connected = connected
        self._requests = requests

    def taken(self) -> list[Json]:
        """The requests since the last call."""
        found = list(self._requests)
        self._requests.clear()
        return found


@contextmanager
def scripted_model() -> Generator[Model]:
    """The model, listening on a free port."""
    seen: list[Json] = []
    connected: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        requests: ClassVar[list[Json]] = seen

        def setup(self) -> None:
            connected.append(self.client_address)
            super().setup()

        def do_POST(self) -> None:
            body: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.requests.append(body)
            lines = "".join(f"data: {json.dumps(each)}\n\n" for each in _chunks(body)) + "data: [DONE]\n\n"
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(lines)))
            self.end_headers()
            self.wfile.write(lines.encode())

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Model(f"http://127.0.0.1:{server.server_port}/v1", seen, connected)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _chunks(body: Json) -> list[Json]:
    delta, reason = _answer(body)
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    first = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    last: Json = {"index": 0, "delta": {}, "finish_reason": reason}
    return [{**head, "choices": [first]}, {**head, "choices": [last]}, {**head, "choices": [], "usage": usage}]


def _answer(body: Json) -> tuple[Json, str]:
    messages = body["messages"]
    offered: list[Json] = [tool["function"] for tool in body.get("tools") or ()]
    tools = [tool for tool in offered if tool["name"] != "__human_input"]
    form: Json = body.get("response_format") or {}
    schema: Json | None = form["json_schema"]["schema"] if "json_schema" in form else None
    if schema is not None:
        return {"content": json.dumps(_fill(schema, schema, json.dumps(messages)))}, "stop"
    loops = body["model"] == "loops" and sum(it["role"] == "tool" for it in messages) < 25
    if tools and (loops or messages[-1]["role"] != "tool"):
        function = min(tools, key=json.dumps)
        needed: list[str] = function["parameters"].get("required", [])
        called = {"name": function["name"], "arguments": json.dumps(dict.fromkeys(needed, "x"))}
        said = {"content": "I go on."} if loops else {}
        return {
            **said,
            "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": called}],
        }, "tool_calls"
    heard = json.dumps([(it["role"], it.get("content")) for it in messages[1:]])
    return {"content": f"answer {hashlib.sha256(heard.encode()).hexdigest()[:6]}"}, "stop"


def _fill(schema: Json, root: Json, said: str) -> Any:
    """The smallest value that fits a schema; an agent is one that the request names."""
    if "$ref" in schema:
        return _fill(root["$defs"][schema["$ref"].rpartition("/")[2]], root, said)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    for union in ("anyOf", "allOf", "oneOf"):
        if union in schema:
            return _fill(schema[union][0], root, said)
    match schema.get("type"):
        case "object":
            return {
                name: _agent(said) if name == "agent" else _fill(each, root, said)
                for name, each in schema.get("properties", {}).items()
            }
        case "array":
            return []
        case "boolean":
            return True
        case "integer" | "number":
            return 1
        case _:
            return "text"


def _agent(said: str) -> str:
    found = _AGENT.findall(said.replace('\\"', '"'))
    return found[0] if found else "nobody"
