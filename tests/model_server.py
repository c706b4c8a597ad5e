"""`python -m tests.model_server PORT [FILE]`: the offline model behind an OpenAI-compatible address, as a process.

It keeps no state: the messages say which response is next. With FILE it writes down every request as `KEY/NUMBER`: the
first line of the user's message, and which response to it this is.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.chaos.effects import write_down

from agent_worker.llm.offline import Say, Sleep, Step, plan

type Json = dict[str, Any]


def model_server(calls: Path | None) -> Starlette:
    """Make the application."""

    async def complete(request: Request) -> Response:
        body = await request.json()
        message, number = asked(body["messages"])
        if calls is not None:
            write_down(calls, f"{message.partition('\n')[0].strip()}/{number}")
        steps = plan(message)
        step = steps[min(number, len(steps)) - 1]
        await asyncio.sleep(sum(it.seconds for it in step.actions if isinstance(it, Sleep)))
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks(step, number)]
        return Response("".join([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


def asked(messages: Sequence[Json]) -> tuple[str, int]:
    """The last message of the user, and the number of the response to it that is asked for."""
    at = max(index for index, message in enumerate(messages) if message["role"] == "user")
    content = messages[at]["content"]
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return text, 1 + sum(message["role"] == "assistant" for message in messages[at:])


def chunks(step: Step, number: int) -> Iterator[Json]:
    """A response as the API streams it: text, calls of tools, the end, the usage."""
    text = "\n".join(it.text for it in step.actions if isinstance(it, Say))
    calls = [
        {
            "index": index,
            "id": f"call_{number}_{index}",
            "type": "function",
            "function": {"name": tool.name.replace("/", "__", 1), "arguments": json.dumps(tool.arguments)},
        }
        for index, tool in enumerate(step.tools)
    ]
    about: Json = {"id": f"{number}", "object": "chat.completion.chunk", "created": 1, "model": "offline"}
    delta: Json = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    yield about | {"choices": [{"index": 0, "delta": delta}]}
    yield about | {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
    yield about | {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}


def main() -> None:
    """Serve until a signal."""
    calls = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    config = uvicorn.Config(
        model_server(calls), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False
    )
    uvloop.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()
