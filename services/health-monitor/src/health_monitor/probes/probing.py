"""Shared by all probes: the HTTP client, its limits, the timeout, and reasons without secrets.

The texts of httpx's errors may contain an address, so they are never passed on.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable

import httpx

log = logging.getLogger(__name__)

LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes, enough for long lists of models."""


class AnswerRefused(httpx.HTTPError):
    """An answer that would cost the monitor of all teams too much."""


class _Bounded(httpx.AsyncByteStream):
    """What a server sends, up to `LARGEST_ANSWER` bytes."""

    def __init__(self, sent: httpx.AsyncByteStream) -> None:
        self._sent = sent

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = 0
        async for chunk in self._sent:
            size += len(chunk)
            if size > LARGEST_ANSWER:
                raise AnswerRefused("its answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._sent.aclose()


async def _bound(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AnswerRefused("its answer is compressed, which was not asked for")
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _Bounded(response.stream)


def make_http(timeout: float) -> httpx.AsyncClient:
    """The client of all probes. Every probe makes a new connection, because it has to find out whether that works."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(
        timeout=timeout, limits=limits, headers={"Accept-Encoding": "identity"}, event_hooks={"response": [_bound]}
    )


async def reason_of(probing: Awaitable[str | None], timeout: float) -> str | None:
    """Wait for a probe, for `timeout` seconds; return its answer, or why there is none."""
    try:
        async with asyncio.timeout(timeout):
            return await probing
    except (TimeoutError, httpx.TimeoutException):
        return f"no answer in {timeout:g} s"
    except httpx.ConnectError:
        return "cannot connect"
    except AnswerRefused as refused:
        return str(refused)
    except httpx.HTTPError:
        return "the connection broke"
    except (httpx.InvalidURL, ValueError):
        return "its address or a header is invalid"
    except Exception as error:  # noqa: BLE001 - one server's odd answer must not end the probes of all others
        log.warning("a probe failed unexpectedly", extra={"error": type(error).__name__})
        return "the probe failed"
