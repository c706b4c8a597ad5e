"""The answers of a model's provider, bounded, for any library that calls it over httpx2.

The libraries read without limits, and unpack what is compressed; and a worker serves several teams. They also take a
stream of events that ends before its last event for a whole answer, and execute the calls of tools in it.
"""

import json
import re
from collections.abc import AsyncIterator
from typing import override

import httpx2

_LAST = re.compile(
    rb'^data: ?\[DONE\]|"(?:finish|stop)_reason" ?: ?"'
    rb'|"type" ?: ?"(?:message_stop|response\.(?:completed|incomplete|failed))"',
    re.MULTILINE,
)
"""What only the end of an answer has: some servers send no reason, others no `[DONE]`. In texts, quotes are escaped."""
_LONGEST_MARK = 64
_LARGEST = 64 * 1024 * 1024
_LONGEST_LINE = 8 * 1024 * 1024
"""Bytes. A long answer comes in as many events as it has tokens; a body of JSON is one line."""


class AnswerRefused(httpx2.RemoteProtocolError):
    """An answer that would cost the worker too much."""


async def bound_answer(response: httpx2.Response) -> None:
    """Bound an answer of which nothing was read yet: a hook of a client.

    A refused one becomes an error of the provider, unless a part of it was passed on. The libraries would ask for the
    same again if this raised an error.
    """
    if not isinstance(inner := response.stream, httpx2.AsyncByteStream):
        return
    try:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise AnswerRefused("its answer is compressed, which was not asked for")
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(inner, events=True)
            return
        parts = [part async for part in _Bounded(inner, events=False)]
        response.stream = httpx2.ByteStream(b"".join(parts))
    except AnswerRefused as error:
        response.status_code = httpx2.codes.BAD_GATEWAY
        response.headers = httpx2.Headers({"content-type": "application/json", "x-should-retry": "false"})
        response.stream = httpx2.ByteStream(json.dumps({"error": {"message": str(error)}}).encode())
    await inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
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
