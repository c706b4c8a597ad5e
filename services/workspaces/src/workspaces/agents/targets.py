"""Where agents are, and which bearer they get: that of their instance.

Those whose instance has none get the bearer of the settings, if their instance is a registry of this platform that
has them itself. Any other registry names addresses of strangers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, bindparam, select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import NotFound, PallasError
from pallas_mcp_calls.model import Target
from pallas_postgres.engine import Prepared, fetch
from workspaces.mnemosyne.vault import Vault
from workspaces.origins import is_own, reached
from workspaces.registries.urls import told_apart
from workspaces.settings import WorkspacesSettings
from workspaces.tables import PallasInstance

_AGENTS = select(
    PallasInstance.id,
    PallasInstance.name,
    PallasInstance.registry_url,
    PallasInstance.agents,
    PallasInstance.agent_token_encrypted,
)
_ALL = Prepared(_AGENTS)
_ONE = Prepared(_AGENTS.where(PallasInstance.id == bindparam("instance")))


@dataclass(frozen=True, slots=True)
class Address:
    """Where an agent is, as the registry at `registry` says, and the encrypted token of its instance.

    `foreign`: that registry has it from another one.
    """

    url: str
    registry: str
    sealed: str | None = field(repr=False)
    foreign: bool


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of a registered instance. `target` None: the instance's token cannot be read.

    `instance` is a name that no other instance has.
    """

    instance_id: str
    instance: str
    server_id: str
    title: str
    target: Target | None

    @property
    def key(self) -> tuple[str, str]:
        """What names it: ids of instance and server."""
        return self.instance_id, self.server_id


class Targets:
    """Reads agents from the database.

    A target's address is where this service reaches the agent, which may be elsewhere than its registry says.
    """

    def __init__(self, engine: AsyncEngine, vault: Vault, settings: WorkspacesSettings) -> None:
        self._engine = engine
        self._vault = vault
        self._settings = settings

    async def all(self) -> list[Agent]:
        """All agents of all registered instances, each once."""
        rows = await fetch(self._engine, _ALL)
        names = told_apart((row.id, row.name, row.registry_url) for row in rows)
        return [agent for row in rows for agent in self._agents(row, names[row.id])]

    async def target_of(self, instance_id: str, server_id: str) -> Target:
        """Where an agent is, and its bearer.

        Raises:
            NotFound: there is no such agent (`no_agent`).
            PallasError: the instance's token cannot be read.
        """
        for row in await fetch(self._engine, _ONE, {"instance": instance_id}):
            for agent in row.agents:
                if agent["server_id"] == server_id:
                    sealed, foreign = row.agent_token_encrypted, agent.get("foreign", False)
                    return self.target_at(Address(agent["url"], row.registry_url, sealed, foreign))
        raise NotFound("there is no such agent in a registered instance", code="no_agent")

    def target_at(self, address: Address) -> Target:
        """The agent that was found there.

        Raises:
            PallasError: the instance's token cannot be read.
        """
        return self._target(address.url, self._token(address.registry, address.sealed, foreign=address.foreign))

    def _agents(self, row: Row[str, str, str, list[Any], str | None], name: str) -> Iterator[Agent]:
        url, sealed = row.registry_url, row.agent_token_encrypted
        try:
            own, foreign = (self._token(url, sealed, foreign=foreign) for foreign in (False, True))
            readable = True
        except PallasError:
            own, foreign, readable = None, None, False
        stored: dict[str, Any]
        for stored in row.agents:
            token = foreign if stored.get("foreign", False) else own
            target = self._target(stored["url"], token) if readable else None
            yield Agent(row.id, name, stored["server_id"], stored["title"], target)

    def _target(self, url: str, token: str | None) -> Target:
        return Target(reached(url, self._settings.origins), token)

    def _token(self, registry: str, sealed: str | None, *, foreign: bool) -> str | None:
        if sealed is not None:
            return self._vault.open(sealed)
        default, own = self._settings.agent_token, self._settings.own_registries
        if default is None or foreign or not is_own(registry, own, self._settings.origins):
            return None
        return default.get_secret_value()
