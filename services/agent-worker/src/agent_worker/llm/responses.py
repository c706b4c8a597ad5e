"""An HTTP client that counts the responses of a provider, also those that the provider's SDK retries by itself.

A stream of events that ends before its last event has broken. The SDKs would take what came for the whole answer. They
read without limits, too, and a worker serves several teams.
"""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, override

import httpx2

type Counted = Callable[[str, str], None]
"""Called with the provider and how a request ended: `2xx`, `429`, `4xx`, `5xx`, `timeout` or `unreachable`."""

RESPONSES = ("2xx", "429", "4xx", "5xx", "timeout", "unreachable")


_LAST = re.compile(rb'^data: ?\[DONE\]|"(?:finish|stop)_reason" ?: ?"|"type" ?: ?"message_stop"', re.MULTILINE)
"""What only the end of an answer has: some servers send no reason, others no `[DONE]`. In texts, quotes are escaped."""
_LONGEST_MARK = 64
_LARGEST = 64 * 1024 * 1024
_LONGEST_LINE = 8 * 1024 * 1024
"""Bytes. A long answer comes in as many events as it has tokens; a body of JSON is one line."""


class AnswerRefused(httpx2.RemoteProtocolError):
    """An answer that would cost the worker too much."""


def ignore(_provider: str, _code: str) -> None:
    """Count nothing."""


class CountingClient(httpx2.AsyncClient):
    """Reports each response of `provider` to `counted`, or why there was none."""

    def __init__(self, provider: str, counted: Counted, **options: Any) -> None:
        hooks = {"response": [_bound]}
        super().__init__(headers={"accept-encoding": "identity"}, event_hooks=hooks, **options)
        self._provider = provider
        self._counted = counted

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request."""
        try:
            response = await super().send(request, **options)
        except httpx2.TimeoutException:
            self._counted(self._provider, "timeout")
            raise
        except httpx2.TransportError:
            self._counted(self._provider, "unreachable")
            raise
        self._counted(self._provider, _class_of(response.status_code))
        return response


async def _bound(response: httpx2.Response) -> None:
    """Nothing was read yet."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AnswerRefused("its answer is compressed, which was not asked for")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _WholeStream(response.stream, events=events)


class _WholeStream(httpx2.AsyncByteStream):
    """An answer of a bounded size. If it consists of `events`, it must come to its end."""

    def __init__(self, inner: httpx2.AsyncByteStream, *, events: bool) -> None:
        self._inner = inner
        self._events = events

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        before, whole = b"", not self._events
        size = line = 0
        async for part in self._inner:
            size += len(part)
            line = len(part) - part.rfind(b"\n") - 1 if b"\n" in part else line + len(part)
            if size > _LARGEST or line > _LONGEST_LINE:
                raise AnswerRefused("its answer is too large")
            before = before[-_LONGEST_MARK:] + part
            whole = whole or _LAST.search(before) is not None
            yield part
        if not whole:
            raise httpx2.RemoteProtocolError("the stream of events ended before its last event")

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


def _class_of(status: int) -> str:
    return "429" if status == 429 else f"{status // 100}xx"
