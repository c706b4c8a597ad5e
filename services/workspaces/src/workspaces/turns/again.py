"""Executes a turn again, and what that can be done with."""

import logging
from dataclasses import dataclass

from pallas_bus import kv
from pallas_contracts.agents import ModelDependency
from pallas_contracts.catalog import AGENTS
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import Principal
from pallas_turns.replay import find_stored_turn, plan_replay, repeated_tool, submit_replay
from workspaces.answers import Replayed, TurnAgent, TurnModels
from workspaces.model import Who
from workspaces.turns.broker import Broker

log = logging.getLogger(__name__)

CALLER = Principal(type="peer", id="pallas-console")
"""The caller of a turn that is executed again from the console."""
_OFFLINE = "offline"
"""The model that every team has."""


@dataclass(frozen=True)
class Again:
    """Executes turns again."""

    broker: Broker

    async def models(self) -> TurnModels:
        """The models and agents of all definitions.

        Raises:
            Unavailable: there is no broker (`no_broker`), or it does not answer.
        """
        known = (await kv.snapshot(self.broker.need(), AGENTS)).values()
        agents = [
            TurnAgent(
                team=each.team,
                agent=each.agent,
                title=each.title,
                model=_reference(each.model) if each.model is not None else None,
            )
            for each in known
            if each.unusable is None
        ]
        models = {_OFFLINE, *(agent.model for agent in agents if agent.model is not None)}
        return TurnModels(
            models=tuple(sorted(models)), agents=tuple(sorted(agents, key=lambda each: (each.team, each.agent)))
        )

    async def repeats(self, turn_id: str) -> bool | None:
        """Whether executing a turn again may repeat a side effect; None if that cannot be found in the log."""
        try:
            bus = self.broker.need()
            turn = await find_stored_turn(bus, turn_id)
            definition = await kv.get(bus, AGENTS, team=turn.team, agent=turn.agent)
        except PallasError:
            return None
        return repeated_tool(turn, definition) is not None if definition is not None else None

    async def execute(
        self, who: Who, turn_id: str, *, model: str | None, agent: str | None, confirmed: bool
    ) -> Replayed:
        """Submit a new turn that executes what this one was asked.

        Raises:
            NotFound: the log has no such turn (`unknown_turn`).
            Conflict: a confirmation is needed (`needs_confirmation`), the turn has not ended (`not_ended`), its request
                is no longer stored (`content_expired`), or does not fit the agent's tool (`invalid_arguments`).
            Rejected: the agent does not exist, or has no model to replace.
            Unavailable: there is no broker (`no_broker`), the agent's queue is full (`busy`), or nothing was confirmed.
        """
        bus = self.broker.need()
        plan = await plan_replay(bus, turn_id, agent=agent, model=model, caller=CALLER)
        plan.check(confirmed=confirmed)
        await submit_replay(bus, plan.request)
        log.info(
            "turn executed again",
            extra={"turn": plan.request.turn_id, "replay_of": turn_id, "actor": who.account},
        )
        return Replayed(turn_id=plan.request.turn_id)


def _reference(model: ModelDependency) -> str:
    """The model as `agents.yaml` names it."""
    return _OFFLINE if model.provider == _OFFLINE else f"{model.provider}.{model.model}"
