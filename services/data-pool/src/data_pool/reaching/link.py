"""One way to call an agent, and what can become of a call."""

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from pallas_contracts.bounds import Json, JsonObject
from pallas_jsonrpc.messages import RpcError

LARGEST_ANSWER = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered: a `value`, with the `content` if it was given in MCP's words, or an `error`."""

    value: Json = None
    content: tuple[JsonObject, ...] = ()
    error: RpcError | None = None


class NotSent(Exception):
    """The call was not sent: it may be made again."""


class Broken(Exception):
    """The connection broke after the call was sent: whether it took effect is unknown."""


class BadAnswer(Exception):
    """The answer cannot be read. The text says why."""


class Link(Protocol):
    """A way to call one agent."""

    def reserved(self) -> AbstractAsyncContextManager[None]:
        """Wait until a call may be sent, which is then made inside the block."""
        return nullcontext()

    async def call(self, params: JsonObject, connect: float) -> Reply:
        """Send `agent.execute` with these params and wait for its answer (`data-agent-pool.md`, section 3.1).

        `connect` is how many seconds each step of connecting may take: a name, a connection, TLS, a handshake.

        When this is cancelled, the agent is told to stop, if it can be.

        Raises:
            NotSent: the agent cannot be reached.
            Broken: the connection broke after the call was sent.
            BadAnswer: the answer is malformed.
        """
        ...

    async def close(self) -> None:
        """End what stands between two calls. The link can still be used."""
