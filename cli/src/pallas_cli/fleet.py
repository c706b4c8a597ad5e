"""The fleet: coding agents, as tools of the agent `fleet/fleet`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_cli.calling import Document, Show, document_of, refusal_of
from pallas_cli.refused import Refused, not_reached
from pallas_mcp_calls.model import CallFailed, Progress, Target

if TYPE_CHECKING:
    from pallas_mcp_calls.calls import AgentCalls


ENDPOINT = "/teams/fleet/mcp/fleet"
_STEP = "fleet/"
"""How progress begins that names a step of a tool (`fleet/find: started`). Other progress is what the tool says."""


@dataclass
class FleetCalls:
    """The fleet at the gateway `url`."""

    url: str
    _calls: "AgentCalls"
    _target: Target

    async def ask(self, tool: str, *, show: Show | None = None, **arguments: object) -> Document:
        """Call a tool and return its answer. Arguments that are None are left out; `show` gets each line of progress.

        Raises:
            Refused: the fleet refuses the call, or there is no answer.
        """

        async def told(progress: Progress) -> None:
            if show is not None and progress.message and not progress.message.startswith(_STEP):
                show(progress.message)

        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            answer = await self._calls.call(self._target, tool, given, on_progress=told)
        except CallFailed as error:
            raise self._unreachable(error) from error
        if answer.failed:
            raise refusal_of(answer.text)
        document: Document | list[object] | None = document_of(answer.text)
        if not isinstance(document, dict):
            raise Refused(f"{self.url} answers, but not as a fleet")
        return document

    def _unreachable(self, error: CallFailed) -> Refused:
        if error.code == "unreachable":
            return not_reached(f"the gateway at {self.url}")
        if error.code == "not_found":
            return Refused(f"the gateway at {self.url} has no fleet")
        return Refused(f"the fleet does not answer: {error}")


@asynccontextmanager
async def fleet_at(gateway: str, token: str | None) -> AsyncGenerator[FleetCalls]:
    """Connect to the fleet; `token` is the bearer for the gateway."""
    from pallas_mcp_calls.calls import AgentCalls

    base = gateway.rstrip("/")
    async with AgentCalls() as calls:
        yield FleetCalls(base, calls, Target(f"{base}{ENDPOINT}", token))
