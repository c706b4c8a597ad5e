"""A model for pictures: it answers as a good model would, at a model's pace, behind an OpenAI-compatible address.

It keeps no state but `stalls`. The instruction says which agent asks, and the messages which response is next.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.model_server import asked
from tests.workspaces_world.served import Served

LARGE, SMALL = "qwen3-32b", "qwen3-8b"
QUESTION = (
    "What may a team read once it is attached to a workspace? The handbook should say. We would attach it to "
    "Contracts with 41 documents and to Suppliers with 82: how many are that?"
)
AGAIN = "And what happens to a running turn when its worker is lost? Please check the handbook once more."

ICONS = {"harper": ("#4554c9", "H"), "research": ("#0b7a75", "R"), "engineering": ("#a04b18", "E")}
"""Colour and letter of each agent's icon, at `/icons/NAME`."""
_ICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 28 28"><rect width="28" height="28" rx="7" fill="{}"/>
<text x="14" y="19" fill="#fff" font-family="sans-serif" font-weight="700" font-size="14" text-anchor="middle">{}
</text></svg>"""

_ANSWER = """**A team reads every library of the workspaces that it is attached to**, and nothing else.

- Attaching takes effect with the next call of an agent; nothing has to be started again.
- Detaching does so, too: what the team could read before, its next search does not find.

For your two workspaces that is:

| Workspace | Documents |
|:--|--:|
| Contracts | 41 |
| Suppliers | 82 |
| **Both** | **123** |

> A team without workspaces reads nothing.
> — *Handbook of the demo*, “Libraries and who may read them”
"""
_SHORT = """A team reads the libraries of **all workspaces that it is attached to**. Attaching takes effect at once.

Contracts and Suppliers have 41 + 82 = **123** documents.
"""
_LOST = """Nothing is lost. **Another worker takes the turn over** and goes on from its journal:

1. Answers that models and tools gave before are taken from the log; those calls are not made again.
2. What was under way is called again, unless it may have had an effect.
3. You get one answer, and see the second attempt in the waterfall of the turn.
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says and calls. `thinks` are the seconds before its first word."""

    thinks: float
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def response_to(instruction: str, message: str, number: int, model: str) -> Reply:
    """The response of this number to a message."""
    match instruction, number:
        case harper, 1 if "Harper" in harper:
            calls = (("research__research", {"message": message}),)
            if "how many" in message:
                calls += (("engineering__engineering", {"message": "Add up 41 and 82."}),)
            return Reply(0.9, "I look into the handbook, and have the numbers added up.", calls)
        case harper, _ if "Harper" in harper:
            return Reply(1.1, _LOST if "worker" in message else _SHORT if model == SMALL else _ANSWER)
        case research, 1 if "look up" in research:
            query = "worker lost turn" if "worker" in message else "workspaces team reads"
            calls = (("library-search__search", {"query": query, "limit": 3}), ("toolbox__look_up", {"term": "turn"}))
            return Reply(0.6, calls=calls)
        case research, _ if "look up" in research:
            return Reply(0.8, "A team reads all libraries of its workspaces; one without workspaces reads nothing.")
        case _, 1:
            calls = (("toolbox__add", {"a": 41, "b": 82}), ("toolbox__long_task", {"seconds": 1.6, "steps": 4}))
            return Reply(0.5, calls=calls)
        case _:
            return Reply(0.3, "41 and 82 are 123.")


class StoryModel(Served):
    """The server. While `stalls` is set, Harper's last response to a message does not come."""

    def __init__(self) -> None:
        complete = Route("/v1/chat/completions", self._complete, methods=["POST"])
        routes = [complete, Route("/v1/models", self._models), Route("/icons/{name}", self._icon)]
        super().__init__(Starlette(routes=routes))
        self.stalls = False
        self.stalled = asyncio.Event()

    async def _models(self, _request: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model"} for name in (LARGE, SMALL)]})

    async def _icon(self, request: Request) -> Response:
        return Response(_ICON.format(*ICONS[request.path_params["name"]]), media_type="image/svg+xml")

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        if "Overload" in asked(body["messages"])[0]:
            return JSONResponse({"error": {"message": "overloaded"}}, 400)
        return StreamingResponse(self._stream(body), media_type="text/event-stream")

    async def _stream(self, body: dict[str, Any]) -> AsyncIterator[str]:
        messages = body["messages"]
        message, number = asked(messages)
        instruction = str(messages[0]["content"])
        found = response_to(instruction, message, number, body["model"])
        if self.stalls and number > 1 and "Harper" in instruction:
            self.stalled.set()
            await asyncio.sleep(60)
        await asyncio.sleep(found.thinks)
        for pause, delta, rest in _deltas(found, len(json.dumps(messages)) // 4, number):
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": body["model"], **rest}
            chunk["choices"] = [{"index": 0, **delta}] if delta else []
            yield f"data: {json.dumps(chunk)}\n\n"
            await asyncio.sleep(pause)
        yield "data: [DONE]\n\n"


def _deltas(found: Reply, read: int, number: int) -> Iterator[tuple[float, dict[str, Any], dict[str, Any]]]:
    """Pause behind it, the choice and the rest of each chunk."""
    for at in range(0, len(found.text), 12):
        yield 0.05, {"delta": {"role": "assistant", "content": found.text[at : at + 12]}}, {}
    calls = [
        {
            "index": n,
            "id": f"call_{number}_{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for n, (name, given) in enumerate(found.calls)
    ]
    if calls:
        yield 0, {"delta": {"role": "assistant", "content": None, "tool_calls": calls}}, {}
    yield 0, {"delta": {}, "finish_reason": "tool_calls" if calls else "stop"}, {}
    written = (len(found.text) + len(json.dumps(found.calls))) // 4
    yield 0, {}, {"usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}}
