"""Prints the events of turns as they are stored in the log."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_cli.plain_text import print_plain
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG
from pallas_contracts.turns import HandedBack, TurnClaim, TurnEvents, TurnOutcome, TurnRequested
from pallas_turns.history.contents import claim_text, text_of, time_of
from pallas_turns.history.replays import Recorded
from pallas_turns.history.tail import Entry, LogEntry, entry_of, tail_streams
from pallas_turns.history.turn_list import TurnFilter
from pallas_turns.history.turns import State, TurnHistory, fold


async def tail(bus: Bus, *, wanted: TurnFilter, as_json: bool) -> None:
    """Print the events of turns until interrupted, or until the end of the period."""
    subject = f"pallas.v1.turn.*.{wanted.team or '*'}.{wanted.agent or '*'}.>"
    callers = _Callers(bus, wanted)
    async with tail_streams(bus, subject, since=wanted.since) as messages:
        while (message := await _next(messages, wanted.until)) is not None:
            entry = entry_of(message)
            if entry is None or wanted.state not in (None, state_of(entry.entry)):
                continue
            if not await callers.include(entry.entry):
                continue
            if as_json:
                body = entry.entry.model_dump(mode="json", exclude_none=True)
                print(json.dumps({"position": entry.position, "contract": entry.contract, **body}), flush=True)
            else:
                for line in lines_of(entry):
                    print_plain(line)


async def _next(messages: asyncio.Queue[Recorded], until: datetime | None) -> Recorded | None:
    """The next message that was stored up to `until`; None after that time."""
    while True:
        left = max(0.0, (until - datetime.now(UTC)).total_seconds()) if until is not None else None
        try:
            async with asyncio.timeout(left):
                message = await messages.get()
        except TimeoutError:
            return None
        if until is None or message.record.time <= until:
            return message


@dataclass
class _Callers:
    """Filters turns by caller, conversation and task."""

    bus: Bus
    wanted: TurnFilter
    _known: dict[str, bool] = field(default_factory=dict[str, bool])

    async def include(self, entry: Entry) -> bool:
        """Whether the turn of this entry matches. A turn that was claimed before the tail started is looked up."""
        if not self.wanted.by_caller:
            return True
        if isinstance(entry, TurnRequested):
            return self._matches(TurnHistory(entry.team, entry.agent, entry.turn_id, entry))
        if entry.turn_id not in self._known:
            ids = {"team": entry.team, "agent": entry.agent, "turn": entry.turn_id}
            turns = fold([record async for record in read(self.bus, TURN_LOG.name, TURN_CLAIM.template.filter(**ids))])
            self._known[entry.turn_id] = entry.turn_id in turns and self._matches(turns[entry.turn_id])
        return self._known.pop(entry.turn_id) if isinstance(entry, TurnOutcome) else self._known[entry.turn_id]

    def _matches(self, turn: TurnHistory) -> bool:
        return replace(self.wanted, state=None).matches(turn)


def state_of(entry: Entry) -> State:
    """The state of the turn at this entry of the log."""
    match entry:
        case TurnRequested() | TurnEvents(events=(*_, HandedBack())):
            return "waiting"
        case TurnOutcome():
            return entry.status
        case _:
            return "running"


def lines_of(entry: LogEntry) -> list[str]:
    """One message of the log as text, one line for each event. Content is named but not shown."""
    body = entry.entry
    name = f"{body.team}/{body.agent} {body.turn_id}"
    match body:
        case TurnRequested():
            again = f", a replay of {body.replay_of}" if body.replay_of else ""
            return [f"{_time(body.requested_at)} {name} requested by {body.principal.label}{again}"]
        case TurnClaim():
            return [f"{_time(body.claim.at)} {name} {claim_text(body.claim)}"]
        case TurnOutcome():
            code = f" ({body.code})" if body.code and body.code != body.status else ""
            seconds = (body.ended_at - body.requested_at).total_seconds()
            return [f"{_time(body.ended_at)} {name} {body.status}{code} after {seconds:.3f} s"]
        case TurnEvents():
            return [f"{_time(time_of(event))} {name} {text_of(event)}" for event in body.events]


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
