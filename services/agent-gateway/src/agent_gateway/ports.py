"""What the MCP side of the gateway wants of the platform side."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Protocol

from agent_gateway.handshake.model import FollowedCall
from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.model import Call, Refusal, TurnEnd
from pallas_calls.relay_turn import Listener
from pallas_calls.submit_turn import Submitted
from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject, Limits, ToolDefinition
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import TurnRequested


class Turns(Protocol):
    """All an agent's server can do with the platform. `key` is what event ids are signed with."""

    key: LogKey

    def request(
        self, definition: AgentDefinition, tool: ToolDefinition, arguments: JsonObject, call: Call
    ) -> TurnRequested:
        """Make the turn that a checked call asks for."""
        ...

    def following(self, request: TurnRequested) -> AbstractContextManager[None]:
        """A caller follows the turn inside the block: to be entered before it is submitted."""
        ...

    async def submit(
        self, request: TurnRequested, limits: Limits, before: Callable[[], Awaitable[None]]
    ) -> Submitted | Refusal:
        """Put the turn into its queue, after `before()`, unless that is over a limit of its agent.

        A turn that an earlier call with the same idempotency key has made is followed instead.
        """
        ...

    async def relay(self, submitted: Submitted, listener: Listener | None) -> TurnEnd:
        """Follow the turn to its end."""
        ...

    async def resume(self, call: FollowedCall, behind: Cursor, listener: Listener) -> TurnEnd | None:
        """Follow a turn again, behind what was told of it, to its end. None: nothing is known of it any more."""
        ...

    def abandon(self, request: TurnRequested, limits: Limits, position: int) -> None:
        """The caller has closed its stream: cancel the turn, without waiting for that.

        With an idempotency key it goes on for the grace time in `limits`, in which it can be joined.
        `position` is the one of `Submitted`; 0 means that it is not known, nor whether the turn is in its queue.
        """
        ...

    async def remember(self, session: str, request: str, ref: TurnRef) -> None:
        """Keep which turn a handshake-era request is."""
        ...

    async def set_log_level(self, session: str, level: str) -> None:
        """Keep the least level of log messages that a handshake-era session wants.

        Raises:
            Unavailable: it cannot be kept now.
        """
        ...

    def log_level(self, session: str) -> str | None:
        """The level that the session has set."""
        ...

    async def read(self, question: AgentRead) -> JsonObject:
        """Ask an agent's owner for a prompt, resource or completion."""
        ...

    async def health(self, definition: AgentDefinition) -> str:
        """The agent's health, as the JSON of the contract."""
        ...
