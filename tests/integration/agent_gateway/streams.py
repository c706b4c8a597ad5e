"""The events of a turn that a handshake-era caller has received, over any number of streams."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from tests.e2e import wire
from tests.waiting import soon

KEY = "a key that all replicas of a test share"
REQUEST = 7
TOKEN = "the caller's token"


@dataclass
class Received:
    """Events in the order in which they came."""

    events: list[wire.Event] = field(default_factory=list[wire.Event])

    @property
    def ids(self) -> list[str]:
        """The ids, in order."""
        return [event.id for event in self.events if event.id is not None]

    @property
    def messages(self) -> list[wire.Message]:
        """The JSON-RPC messages."""
        return [event.message for event in self.events if event.message is not None]

    @property
    def numbers(self) -> list[int]:
        """The progress that `count` reported."""
        progress = [message["params"] for message in self.messages if message.get("method") == "notifications/progress"]
        assert {params["progressToken"] for params in progress} <= {TOKEN}
        return [params["progress"] for params in progress if params.get("total") == 20]

    @property
    def logs(self) -> list[str]:
        """The log messages."""
        return [
            message["params"]["data"] for message in self.messages if message.get("method") == "notifications/message"
        ]

    @property
    def answers(self) -> list[wire.Message]:
        """The responses to the request."""
        responses = [message for message in self.messages if "method" not in message]
        assert {response["id"] for response in responses} <= {REQUEST}
        return responses

    @property
    def text(self) -> str:
        """The text of the only answer."""
        (answer,) = self.answers
        return answer["result"]["content"][0]["text"]

    async def until(self, stream: wire.Stream, number: int) -> None:
        """Read until a number and its log message have arrived."""
        async for event in stream.events():
            self.events.append(event)
            if self.logs and self.logs[-1].startswith(f"{number} "):
                return

    async def rest(self, stream: wire.Stream) -> None:
        """Read a stream to its end."""
        async for event in stream.events():
            self.events.append(event)

    async def resume(self, http: httpx.AsyncClient, url: str, last: str | None = None) -> None:
        """Resume the stream after its last event, or after `last`, and read it to its end."""
        async with wire.resumed(http, url, last or self.ids[-1]) as stream:
            assert stream.response.status_code == 200, await stream.response.aread()
            await soon(self.rest(stream))

    def assert_complete(self, attempt: int = 1) -> None:
        """Fail unless every event has arrived once and no two ids are the same."""
        assert self.numbers == list(range(1, 21))
        assert self.logs == [f"{number} in attempt {attempt}" for number in range(1, 21)]
        assert self.text == f"counted in attempt {attempt}"
        assert len(set(self.ids)) == len(self.ids) == 42 - (self.events[0].message is not None)


@asynccontextmanager
async def counting(
    http: httpx.AsyncClient, url: str, file: Path, version: str = LATEST_HANDSHAKE_VERSION
) -> AsyncGenerator[wire.Stream]:
    """Call `count`; leaving the block closes its stream."""
    params = {"name": "count", "arguments": {"file": str(file)}, "_meta": {"progressToken": TOKEN}}
    body, headers = wire.legacy("tools/call", params, await wire.shake_hands(http, url), request_id=REQUEST)
    async with wire.posted(http, url, (body, {**headers, "mcp-protocol-version": version})) as stream:
        yield stream
