"""Makes the requests of many replays, from what is kept or sealed of the old turns."""

from collections.abc import Sequence
from dataclasses import dataclass

from pallas_bus.history.contents import sealed_request
from pallas_bus.history.turns import TurnHistory, fold
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read_last
from pallas_bus.turnlog.content.claim_checks import whole_request
from pallas_bus.turnlog.content.sealed import OpenKey
from pallas_calls.replay_choice import caller_of, key_of
from pallas_calls.replay_turn import request_again
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import KEPT_REQUEST, TURN_LOG
from pallas_contracts.errors import Conflict, Denied, NotFound
from pallas_contracts.ids import replay_id
from pallas_contracts.turns import Principal, TurnRequested


@dataclass(frozen=True, slots=True)
class ReplayRequests:
    """Makes them in the name of the old callers, for `operator`, with `model` if given. `key` opens sealed requests."""

    bus: Bus
    operator: Principal
    model: str | None = None
    key: OpenKey | None = None

    async def kept(self, turns: Sequence[TurnHistory]) -> dict[str, TurnRequested]:
        """The kept requests of these turns that are not sealed, by the id of the turn.

        Raises:
            Unavailable: the broker does not answer.
        """
        subjects = (turn.ref.on(KEPT_REQUEST.template) for turn in turns)
        found = fold(await read_last(self.bus, TURN_LOG.name, *subjects))
        return {name: turn.kept for name, turn in found.items() if turn.kept is not None}

    async def of(self, turn: TurnHistory, kept: TurnRequested | None, definition: AgentDefinition) -> TurnRequested:
        """The request of the new turn. `kept` is that of the old one, unless it is sealed.

        Raises:
            NotFound: the request is not kept any more (`content_expired`).
            Conflict, Denied, Rejected: it cannot be executed again.
            Unavailable: the broker does not answer.
        """
        asked = await self._asked(turn, kept)
        if asked.parent is not None:
            raise Conflict(f"turn {asked.parent} has made it, and makes it again", code="child")
        caller = caller_of(turn.team, asked.principal, self.operator)
        if caller != self.operator and not definition.allows(caller):
            raise Denied(f"{key_of(turn)} no longer allows its caller", code="not_allowed")
        new, model = replay_id(turn.turn_id), self.model
        return await request_again(asked, definition, turn_id=new, model=model, caller=caller, operator=self.operator)

    async def _asked(self, turn: TurnHistory, kept: TurnRequested | None) -> TurnRequested:
        if kept is not None:
            return await whole_request(self.bus, kept)
        asked = await sealed_request(self.bus, turn.ref, self.key) if self.key is not None else None
        if asked is None:
            raise NotFound(f"the request of turn {turn.turn_id} is no longer stored", code="content_expired")
        return asked
