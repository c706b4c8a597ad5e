"""Settings of handshake-era sessions, shared by all gateways."""

from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_contracts.catalog import SESSIONS, LegacySession
from pallas_contracts.errors import Conflict, Rejected, Unavailable

MOST_SUBSCRIPTIONS = 64
"""Resources of an agent to which a session, or a stream, may subscribe."""

_TRIES = 5


@dataclass
class Sessions:
    """The sessions of all gateways; `known` mirrors their bucket."""

    bus: Bus
    known: Table[LegacySession]
    _followers: dict[str, list[Callable[[], None]]] = field(
        default_factory=lambda: defaultdict[str, "list[Callable[[], None]]"](list)
    )

    def __post_init__(self) -> None:
        self.known.on_change(lambda session, _: self._changed(session))

    async def set_log_level(self, session: str, level: str) -> None:
        """Store the lowest level of log messages that a session wants.

        Raises:
            Unavailable: the broker did not answer.
        """
        await self._change(session, lambda _: {"log_level": level})

    def log_level(self, session: str) -> str | None:
        """The level that the session has set, or None."""
        known = self.known.get(session)
        return known.log_level if known else None

    async def subscribe(self, session: str, agent: str, uri: str, *, wanted: bool) -> None:
        """Store whether a session wants to hear of changes of a resource of an agent (`{team}.{agent}`).

        Raises:
            Rejected: it has too many subscriptions.
            Unavailable: the broker did not answer.
        """

        def changed(known: LegacySession) -> dict[str, Any]:
            uris = dict.fromkeys((*known.subscriptions.get(agent, ()), uri))
            if not wanted:
                del uris[uri]
            if len(uris) > MOST_SUBSCRIPTIONS:
                raise Rejected(f"A session can subscribe to {MOST_SUBSCRIPTIONS} resources.", code="too_many")
            return {"subscriptions": {**known.subscriptions, agent: tuple(uris)}}

        await self._change(session, changed)

    def subscriptions(self, session: str, agent: str) -> tuple[str, ...]:
        """The resources of an agent of whose changes a session wants to hear."""
        known = self.known.get(session)
        return known.subscriptions.get(agent, ()) if known else ()

    async def keep(self, session: str) -> None:
        """Let a session that is in use live on.

        Raises:
            Unavailable: the broker did not answer.
        """
        await self._change(session, lambda _: {})

    @contextmanager
    def following(self, session: str, changed: Callable[[], None]) -> Generator[None]:
        """Call `changed` when a session has changed, at whichever gateway, inside the block."""
        self._followers[session].append(changed)
        try:
            yield
        finally:
            self._followers[session].remove(changed)
            if not self._followers[session]:
                del self._followers[session]

    def _changed(self, session: str) -> None:
        for changed in self._followers.get(session, ()):
            changed()

    async def _change(self, session: str, change: Callable[[LegacySession], dict[str, Any]]) -> None:
        for _ in range(_TRIES):
            known, position = await kv.get_entry(self.bus, SESSIONS, session=session)
            known = known or LegacySession()
            wanted = known.model_copy(update=change(known))
            try:
                await kv.put(self.bus, SESSIONS, wanted, after=position, session=session)
            except Conflict:
                continue
            return
        raise Unavailable("The session kept changing.")
