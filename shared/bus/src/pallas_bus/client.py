"""The client of nats-py, with an end that is one."""

import asyncio
from contextlib import suppress
from typing import override

from nats.aio.client import Client
from nats.errors import Error as NatsError

_CLOSE_SECONDS = 2.0


class ClosingClient(Client):
    """A client whose `close` comes to an end and leaves no socket open."""

    @override
    async def close(self) -> None:
        """Close the connection; whether the other side takes part is not waited for long.

        One whose TLS handshake was cut short never says that it has closed. One that is closed while nats-py closes a
        try that was refused takes itself for closed already, with its socket open.
        """
        try:
            with suppress(NatsError, TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await super().close()
        finally:
            if self._transport is not None:
                self._transport.close()
