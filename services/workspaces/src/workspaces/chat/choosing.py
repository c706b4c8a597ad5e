"""Which agent a message is for. Each message may have another one (auth contract, section 10.3)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Text, bindparam, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Denied, Rejected, Unavailable
from workspaces.agents.health import HealthBook
from workspaces.agents.targets import Address
from workspaces.answers import HealthView
from workspaces.chat.history import Model
from workspaces.tables import AgentConnection, Assignment, PallasInstance


@dataclass(frozen=True, slots=True)
class Wanted:
    """The agent that the sender names. Its id alone is enough if one attached team has such an agent."""

    server_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """An attached agent."""

    instance_id: str
    server_id: str
    title: str
    model: Model
    address: Address


ATTACHED = (
    select(
        PallasInstance.name,
        AgentConnection.workspace_id,
        AgentConnection.pallas_instance_id,
        AgentConnection.server_id,
        AgentConnection.title,
        AgentConnection.vision,
        AgentConnection.context_window,
        AgentConnection.max_output_tokens,
        AgentConnection.url,
        PallasInstance.registry_url,
        PallasInstance.agent_token_encrypted,
        PallasInstance.agents.contains(
            func.jsonb_build_array(func.jsonb_build_object("server_id", AgentConnection.server_id, "foreign", true()))
        ).label("foreign"),
    )
    .join(
        Assignment,
        (Assignment.workspace_id == AgentConnection.workspace_id)
        & (Assignment.pallas_instance_id == AgentConnection.pallas_instance_id),
    )
    .join(PallasInstance, PallasInstance.id == AgentConnection.pallas_instance_id)
    .where(
        AgentConnection.server_id == bindparam("server"),
        AgentConnection.pallas_instance_id
        == func.coalesce(bindparam("instance", type_=Text), AgentConnection.pallas_instance_id),
    )
)
"""The agents that a sender may mean, in all workspaces."""
_LOCKED = (
    ATTACHED.where(AgentConnection.workspace_id == bindparam("workspace"))
    .order_by(PallasInstance.name)
    .with_for_update(of=Assignment, key_share=True, read=True)
)


async def choose_agent(session: AsyncSession, workspace_id: str, wanted: Wanted) -> Chosen:
    """The agent that is meant. Its team stays attached until the end of the transaction.

    Raises:
        Denied: it is not attached to the workspace (`agent_not_attached`).
        Rejected: several teams have such an agent (`ambiguous_agent`).
    """
    named = {"workspace": workspace_id, "server": wanted.server_id, "instance": wanted.instance_id}
    return the_agent((await session.execute(_LOCKED, named)).all())


def the_agent(found: Sequence[Row[*tuple[Any, ...]]]) -> Chosen:
    """The one that is meant, of the rows of `ATTACHED`.

    Raises:
        Denied, Rejected: as `choose_agent`.
    """
    if not found:
        raise Denied("the agent is not attached to this workspace", code="agent_not_attached")
    if len(found) > 1:
        teams = ", ".join(f"{agent.name} ({agent.pallas_instance_id})" for agent in found)
        sentence = f"agent_server_id: several attached teams have such an agent; name one in agent_instance_id: {teams}"
        raise Rejected(sentence, code="ambiguous_agent", field="agent_server_id")
    agent = found[0]
    model = Model(agent.vision, agent.context_window, agent.max_output_tokens)
    address = Address(agent.url, agent.registry_url, agent.agent_token_encrypted, agent.foreign)
    return Chosen(agent.pallas_instance_id, agent.server_id, agent.title, model, address)


def must_see(chosen: Chosen, images: int) -> None:
    """Check that an agent can be sent images.

    Raises:
        Rejected: its model has no vision (`no_vision`).
    """
    if images and not chosen.model.vision:
        raise Rejected("images: the model of this agent cannot see images", code="no_vision", field="images")


class Wellness:
    """Lets messages pass to agents that are well, by their cached health (interface contract, section 4)."""

    def __init__(self, health: HealthBook) -> None:
        self._health = health
        self._checks = set[asyncio.Task[HealthView]]()

    def check(self, chosen: Chosen) -> None:
        """Check that an agent can be called. If not, its health is checked anew, for the next message.

        Raises:
            Unavailable: its health is `error` (`agent_unhealthy`).
        """
        view = self._health.of(chosen.instance_id, chosen.server_id)
        if view.status != "error":
            return
        check = asyncio.ensure_future(self._health.check_now(chosen.instance_id, chosen.server_id))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)
        reason = view.message or "its health check failed"
        raise Unavailable(f"the agent cannot be called: {reason}", code="agent_unhealthy")
