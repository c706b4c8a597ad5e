"""Settings and calls of handshake-era sessions, shared by all gateways.

A session that has set nothing is not stored. Of one caller so many are stored; then its oldest ones are forgotten.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_contracts.catalog import CALLS, SESSIONS, LegacyCall, LegacySession
from pallas_contracts.errors import Conflict, PallasError, Rejected, Unavailable
from pallas_contracts.turns import TurnAsked, TurnRequested
from pallas_runtime.telemetry import of_turn, tracer
from pallas_turns.cancel import cancel_turn
from pallas_turns.claims import TurnRef

log = logging.getLogger(__name__)

MOST_SUBSCRIPTIONS = 64
"""Resources of an agent to which a session, or a stream, may subscribe."""
MOST_CHARACTERS = 16_384
"""Characters of all addresses to which a session subscribes."""

MOST_OF_A_CALLER, MOST_SESSIONS = 64, 16_384
"""Sessions that are stored: of one caller, and in all."""

_ALL_MESSAGES = "debug"
"""A session that has set no level gets all log messages, too."""

_TRIES = 5
_MARK_SECONDS = 60.0
"""Seconds for which the broker keeps the mark of a removed session: gateways hear of it, or find it when they poll."""


@dataclass
class Sessions:
    """The sessions of all gateways; `known` mirrors their bucket."""

    bus: Bus
    known: Table[LegacySession]
    _callers: dict[str, str] = field(default_factory=dict[str, str])
    _of_callers: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    _followers: dict[str, list[Callable[[], None]]] = field(
        default_factory=lambda: defaultdict[str, "list[Callable[[], None]]"](list)
    )

    def __post_init__(self) -> None:
        self.known.on_change(self._changed)

    async def set_log_level(self, session: str, caller: str, level: str) -> None:
        """Store the lowest level of log messages that a session of a caller wants.

        Raises:
            Rejected: too many sessions are stored.
            Unavailable: the broker did not answer.
        """
        await self._change(session, caller, lambda _: {"log_level": level if level != _ALL_MESSAGES else None})

    def log_level(self, session: str) -> str | None:
        """The level that the session has set, or None."""
        known = self.known.get(session)
        return known.log_level if known else None

    async def subscribe(self, session: str, caller: str, agent: str, uri: str, *, wanted: bool) -> None:
        """Store whether a session of a caller wants to hear of changes of a resource of an agent (`{team}.{agent}`).

        Raises:
            Rejected: it has too many subscriptions, or too many sessions are stored.
            Unavailable: the broker did not answer.
        """

        def changed(known: LegacySession) -> dict[str, Any]:
            uris = dict.fromkeys((*known.subscriptions.get(agent, ()), uri))
            if not wanted:
                del uris[uri]
            if len(uris) > MOST_SUBSCRIPTIONS:
                raise Rejected(f"A session can subscribe to {MOST_SUBSCRIPTIONS} resources.", code="too_many")
            others = {name: them for name, them in known.subscriptions.items() if name != agent}
            all_of_it = others | ({agent: tuple(uris)} if uris else {})
            if wanted and sum(len(uri) for them in all_of_it.values() for uri in them) > MOST_CHARACTERS:
                message = f"The addresses to which a session subscribes can have {MOST_CHARACTERS} characters in all."
                raise Rejected(message, code="too_many")
            return {"subscriptions": all_of_it}

        await self._change(session, caller, changed)

    def subscriptions(self, session: str, agent: str) -> tuple[str, ...]:
        """The resources of an agent of whose changes a session wants to hear."""
        known = self.known.get(session)
        return known.subscriptions.get(agent, ()) if known else ()

    async def keep(self, session: str) -> None:
        """Let a session that is in use live on.

        Raises:
            Unavailable: the broker did not answer.
        """
        await self._change(session, None, lambda _: {})

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

    def _changed(self, session: str, known: LegacySession | None) -> None:
        before, now = self._callers.pop(session, None), known.caller if known is not None else None
        if before is not None:
            self._of_callers[before].discard(session)
            if not self._of_callers[before]:
                del self._of_callers[before]
        if now is not None:
            self._callers[session] = now
            self._of_callers[now].add(session)
        for changed in self._followers.get(session, ()):
            changed()

    async def _change(
        self, session: str, caller: str | None, change: Callable[[LegacySession], dict[str, Any]]
    ) -> None:
        for _ in range(_TRIES):
            known, position = await kv.get_entry(self.bus, SESSIONS, session=session)
            before = known or LegacySession()
            wanted = before.model_copy(update={**change(before), **({"caller": caller} if caller is not None else {})})
            try:
                if wanted.log_level is not None or wanted.subscriptions:
                    if known is None:
                        await self._make_room(wanted.caller)
                    stored = await kv.put(self.bus, SESSIONS, wanted, after=position, session=session)
                    self.known.changed(session, wanted, stored)
                elif known is not None:
                    removed = await kv.delete(self.bus, SESSIONS, after=position, marked=_MARK_SECONDS, session=session)
                    self.known.changed(session, None, removed)
            except Conflict:
                continue
            return
        raise Unavailable("The session kept changing.")

    async def _make_room(self, caller: str | None) -> None:
        """Make room for another session: the oldest ones of the caller are forgotten if there are too many.

        Raises:
            Rejected: in all there are too many.
        """
        mine = self._of_callers.get(caller, ()) if caller is not None else ()
        for oldest in sorted(mine, key=lambda session: self.known.entry(session)[1])[: 1 - MOST_OF_A_CALLER or None]:
            removed = await kv.delete(self.bus, SESSIONS, marked=_MARK_SECONDS, session=oldest)
            self.known.changed(oldest, None, removed)
        if len(self.known) >= MOST_SESSIONS:
            raise Rejected(f"The settings of {MOST_SESSIONS} sessions are stored; no more are.", code="too_many")


_CANCEL_TIMEOUT = 2.0
"""Seconds for which the sender of a cancel waits; the cancel continues in the background."""

_OVERTAKEN = 0.2
"""Seconds after which a call that was sent before its cancel is stored."""


async def remember_call(bus: Bus, session: str, request: str, turn: TurnRequested) -> None:
    """Store which turn a handshake-era request became."""
    call = LegacyCall(team=turn.team, agent=turn.agent, turn_id=turn.turn_id, asked=TurnAsked.of(turn))
    await kv.put_nowait(bus, CALLS, call, session=session, request=request)


async def forget_call(bus: Bus, session: str, request: str) -> None:
    """Remove what `remember_call` stored: the call has its answer. Otherwise it expires."""
    await kv.delete_nowait(bus, CALLS, session=session, request=request)


async def cancel_call(bus: Bus, session: str, request: str) -> None:
    """Cancel the turn of a handshake-era request, if there is one.

    A cancel may overtake its call, so an unknown call is read once more after `_OVERTAKEN` seconds. One that is still
    unknown has its answer already, or was pushed out of the bucket.
    """
    try:
        call = await kv.get(bus, CALLS, session=session, request=request)
        if call is None:
            await asyncio.sleep(_OVERTAKEN)
            call = await kv.get(bus, CALLS, session=session, request=request)
    except PallasError as error:
        log.warning("cannot read the call to cancel", extra={"reason": error.message})
        return
    if call is None:
        bus.rarely.warn(log, "a cancel names no call that runs", session=session, request=request)
    else:
        ref = TurnRef(call.team, call.agent, call.turn_id)
        with of_turn(**ref.facts), tracer.start_as_current_span("cancel_call"):
            cancelling = bus.spawn(cancel_turn(bus, ref, "cancelled by the caller", call.asked))
            await asyncio.wait({cancelling}, timeout=_CANCEL_TIMEOUT)
