"""Fewer, larger writes: pieces of a response body that follow each other closely are sent as one.

Events of a turn often arrive together, and each piece of a body would otherwise cost a system call. The last piece is
never delayed.
"""

import asyncio

from starlette.types import Message, Send

MOMENT = 0.002
"""Seconds for which a piece waits for more."""

MANY = 64
"""Pieces that may wait. A slower reader then blocks its own relay instead of filling the gateway's memory."""


class CoalescedSend:
    """An ASGI `send` that coalesces pieces of a body. Every other message is sent at once, in order.

    `started` and `ended` tell whether the response has begun and is complete. After a write has failed, all calls do.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._pieces: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self.started = self.ended = False

    async def __call__(self, message: Message) -> None:
        """Send `message`, or keep it for a moment."""
        self.started = True
        if self._flushing is not None and self._flushing.done():
            self._flushing.result()  # it has failed
        if message["type"] == "http.response.body" and message.get("more_body"):
            self._pieces.append(message.get("body", b""))
            if self._timer is None and self._flushing is None:
                self._timer = asyncio.get_running_loop().call_later(MOMENT, self._start_flush)
            elif self._flushing is not None and len(self._pieces) > MANY:
                await self._flushed(self._flushing)
            return
        self.ended = message["type"] == "http.response.body"
        if self._timer is not None:
            self._timer.cancel()
        elif self._flushing is not None:
            await self._flushed(self._flushing)
        await self._send(
            {**message, "body": b"".join([*self._pieces, message.get("body", b"")])} if self._pieces else message
        )

    def _start_flush(self) -> None:
        self._timer = None
        self._flushing = asyncio.create_task(self._flush())

    async def _flushed(self, flushing: asyncio.Task[None]) -> None:
        await asyncio.wait({flushing})
        flushing.result()

    async def _flush(self) -> None:
        while self._pieces:
            pieces, self._pieces = self._pieces, []
            await self._send({"type": "http.response.body", "body": b"".join(pieces), "more_body": True})
        self._flushing = None
