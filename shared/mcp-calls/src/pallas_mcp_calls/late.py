"""Calls that are loaded when the first one is made: the SDK is 0.4 s of the start of a process."""

import asyncio
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

import httpx2

if TYPE_CHECKING:
    from pallas_mcp_calls.calls import AgentCalls


class LateCalls:
    """`AgentCalls` by this transport: `await late()`. It is loaded in a thread, once; leaving the block closes it."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport
        self._calls: AgentCalls | None = None
        self._loading = asyncio.Lock()

    async def __call__(self) -> "AgentCalls":
        """What makes calls."""
        async with self._loading:
            if self._calls is None:
                module = await asyncio.to_thread(import_module, "pallas_mcp_calls.calls")
                self._calls = module.AgentCalls(self._transport)
                assert self._calls is not None
        return self._calls

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections. Calls that run are lost."""
        async with self._loading:
            closing = self._transport.aclose() if self._calls is None else self._calls.__aexit__(kind, error, traceback)
            await closing
