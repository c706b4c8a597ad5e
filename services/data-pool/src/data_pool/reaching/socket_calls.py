"""Calls of agents over a WebSocket that they opened. Calls to all agents on it are numbered together.

An agent whose registration had no `id` may answer without one. It is called one call at a time, and its answer belongs
to the call that is under way. A call of it that ends otherwise closes the connection, or its late answer would be taken
for that of the next call.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field

from prometheus_client import Counter

from data_pool.reaching.link import BadAnswer, Broken, Link, NotSent, Reply
from pallas_contracts.bounds import Json, JsonObject
from pallas_jsonrpc.messages import VERSION, RequestId, Response
from pallas_jsonrpc.serving import encode
from pallas_jsonrpc.strict_json import has_too_many_values

SEND_SECONDS = 10.0
"""How long the peer may read nothing while something is to be sent."""
MOST_WAITING = 64 * 1024 * 1024
"""Bytes that may wait to be sent."""
_REMEMBERED = 1000
_FIRST_ID = re.compile(r'\s*\{(?:\s*"(?!id")\w{1,20}"\s*:\s*"[^"\\]{0,100}"\s*,){0,5}\s*"id"\s*:\s*(\d{1,15})\s*[,}]')
_LAST_ID = re.compile(r',\s*"id"\s*:\s*(\d{1,15})\s*\}\s*\Z')
_NEAR_THE_END = 100

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_ID = re.compile(r'"id"\s*+:\s*+(\d{1,15})\s*+[,}]')


@dataclass(eq=False)
class SocketCalls:
    """The calls over one WebSocket, on which `agents` have registered. `cut` closes the connection without waiting.

    `write` sends a text. It waits while the peer does not read, and raises `NotSent` when the connection is closed.
    """

    write: Callable[[str], Awaitable[None]]
    cut: Callable[[], None]
    stray: Counter
    agents: set[str] = field(default_factory=set[str])
    closed: bool = False
    _last: int = 0
    _pending: dict[RequestId, asyncio.Future[Response]] = field(
        default_factory=dict[RequestId, "asyncio.Future[Response]"]
    )
    _given_up: dict[RequestId, None] = field(default_factory=dict[RequestId, None])
    _turnstile: asyncio.Lock = field(default_factory=asyncio.Lock)
    _unnumbered: int | None = None
    _waiting: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def send(self, message: JsonObject | bytes) -> None:
        """Send a message. A peer that does not read is disconnected, so that nobody waits for it.

        Raises:
            NotSent: the connection is closed.
        """
        text = (message if isinstance(message, bytes) else encode(message)).decode()
        self._waiting += len(text)
        try:
            if self.closed or self._waiting > MOST_WAITING:
                raise NotSent
            async with asyncio.timeout(SEND_SECONDS):
                await self.write(text)
        except (NotSent, TimeoutError):
            self.cut()
            raise NotSent("the connection is closed") from None
        finally:
            self._waiting -= len(text)

    @asynccontextmanager
    async def one_at_a_time(self) -> AsyncGenerator[None]:
        """Wait until no agent that answers without ids is called over this connection."""
        async with self._turnstile:
            yield

    async def call(self, params: JsonObject, *, strict: bool, numbered: bool) -> Response:
        """Send `agent.execute` and wait for its answer (see `Link.call`)."""
        self._last = number = self._last + 1
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        self._unnumbered = self._unnumbered if numbered else number
        sent = False
        try:
            await self.send(_request("agent.execute", params, strict=strict, number=number))
            sent = True
            return await answer
        except asyncio.CancelledError:
            if sent:
                self._give_up(number, strict=strict, numbered=numbered)
            raise
        finally:
            del self._pending[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # it may have arrived before the call was sent as a whole
            self._unnumbered = None if self._unnumbered == number else self._unnumbered
            if not self._pending:
                self._idle.set()

    def _give_up(self, number: int, *, strict: bool, numbered: bool) -> None:
        """Nobody waits for this answer any more."""
        self._given_up[number] = None
        if len(self._given_up) > _REMEMBERED:
            del self._given_up[next(iter(self._given_up))]
        if not numbered:
            self.cut()
        elif strict:
            task = asyncio.create_task(self._cancel(number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _cancel(self, number: int) -> None:
        with suppress(NotSent):
            await self.send(_request("agent.cancel", {"id": number}, strict=True, number=None))

    def answered(self, response: Response) -> None:
        """An answer has arrived. One that belongs to no call is counted, and has no other effect."""
        number = response.id if response.numbered else self._unnumbered
        call = self._pending.get(number)
        if call is not None and not call.done():
            call.set_result(response)
            return
        made = isinstance(number, int) and 0 < number <= self._last
        self.stray.labels("late" if number in self._given_up else "again" if made else "unknown").inc()

    def malformed(self, number: RequestId, reason: str) -> bool:
        """An answer has arrived that cannot be read. `number` is its id, None if it has none. Returns whether it is
        that of a call, which fails then.
        """
        call = self._pending.get(self._unnumbered if number is None else number)
        if call is not None and not call.done():
            call.set_exception(BadAnswer(reason))
            return True
        self.stray.labels("unreadable").inc()
        return False

    def empty(self, number: Json) -> bool:
        """A message has arrived that has an id and nothing else. If a call has the id, that fails; otherwise False."""
        if not isinstance(number, int) or isinstance(number, bool) or number not in self._pending:
            return False
        self.malformed(number, "it has neither a result nor an error")
        return True

    async def until_idle(self) -> None:
        """Wait until no call is under way."""
        while self._pending:
            self._idle.clear()
            await self._idle.wait()

    def close(self) -> None:
        """The connection is closed: all calls under way end."""
        self.closed = True
        for call in self._pending.values():
            if not call.done():
                call.set_exception(Broken("the connection broke during the call"))


def id_in(text: str) -> RequestId:
    """The id in a message that is not JSON by all rules; None if it cannot be seen."""
    if has_too_many_values(text):
        return _id_beside_the_rest(text)
    with suppress(ValueError, RecursionError):
        found: Json = json.loads(text)
        if isinstance(found, dict) and isinstance(number := found.get("id"), int | str):
            return number
        return None
    seen = _FIRST_ID.match(text) or _LAST_ID.search(text, max(0, len(text) - _NEAR_THE_END))
    return int(seen[1]) if seen else None


def _id_beside_the_rest(text: str) -> int | None:
    """The id of a message that is not read, wherever it stands. Others go on meanwhile, if this is a thread."""
    depth = 0
    for token in _TOKEN.finditer(text):
        match text[token.start()]:
            case "{" | "[":
                depth += 1
            case "}" | "]":
                depth -= 1
            case _ if depth == 1 and (seen := _ID.match(text, token.start())):
                return int(seen[1])
            case _:
                pass
    return None


@dataclass(frozen=True, slots=True)
class SocketLink(Link):
    """An agent on a WebSocket. `strict`: it speaks JSON-RPC 2.0; `numbered`: its requests have an `id`."""

    calls: SocketCalls
    strict: bool
    numbered: bool

    def reserved(self) -> AbstractAsyncContextManager[None]:
        """Wait until the agent may be called."""
        return nullcontext() if self.numbered else self.calls.one_at_a_time()

    async def call(self, params: JsonObject, connect: float) -> Reply:
        """Call the agent (see `Link`)."""
        response = await self.calls.call(params, strict=self.strict, numbered=self.numbered)
        return Reply(value=response.result, error=response.error)


def _request(method: str, params: JsonObject, *, strict: bool, number: int | None) -> JsonObject:
    return {
        **({"jsonrpc": VERSION} if strict else {}),
        **({"id": number} if number is not None else {}),
        "method": method,
        "params": params,
    }
