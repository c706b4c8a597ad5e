"""Turns as they happen, a line each: read from the log, like everything that is said about a turn."""

import json
from datetime import UTC, datetime

from pallas_bus.connection import Bus
from pallas_bus.turn_tail import LogEntry, tail_turns
from pallas_contracts.turns import (
    AnyEvent,
    CancelRequested,
    Claimed,
    ModelCalled,
    Step,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnClaim,
    TurnEvents,
    TurnJoined,
    TurnOutcome,
)


async def tail(bus: Bus, *, team: str | None, agent: str | None, as_json: bool) -> None:
    """Print what happens to turns, until interrupted."""
    async with tail_turns(bus, team=team, agent=agent) as entries:
        while True:
            entry = await entries.get()
            if as_json:
                body = entry.entry.model_dump(mode="json", exclude_none=True)
                print(json.dumps({"position": entry.position, "contract": entry.contract, **body}), flush=True)
            else:
                for line in lines_of(entry):
                    print(line, flush=True)


def lines_of(entry: LogEntry) -> list[str]:
    """What a reader is told of one message of the log. Content is not shown, only that there is some."""
    said = entry.entry
    name = f"{said.team}/{said.agent} {said.turn_id}"
    match said:
        case TurnClaim():
            return [f"{_time(said.claim.at)} {name} {_claim(said.claim)}"]
        case TurnJoined():
            return [f"{_time(said.at)} {name} followed again through {said.gateway}"]
        case TurnOutcome():
            code = f" ({said.code})" if said.code and said.code != said.status else ""
            seconds = (said.ended_at - said.requested_at).total_seconds()
            return [f"{_time(said.ended_at)} {name} {said.status}{code} after {seconds:.3f} s"]
        case TurnEvents():
            return [f"{_time(_moment(event))} {name} {text_of(event)}" for event in said.events]


def _claim(claim: Claimed | CancelRequested) -> str:
    if isinstance(claim, Claimed):
        return f"attempt {claim.attempt} by {claim.worker}"
    return f"cancel: {claim.reason}"


def text_of(event: AnyEvent) -> str:
    """An event in a few words."""
    match event:
        case Step():
            return f"{event.agent} step {event.n} ({event.kind})"
        case ToolStarted():
            return f"{event.server}/{event.tool}: started"
        case ToolCompleted():
            return f"{event.server}/{event.tool}: completed in {event.duration_ms:.1f} ms"
        case ToolFailed():
            return f"{event.server}/{event.tool}: failed ({event.code}) in {event.duration_ms:.1f} ms"
        case ModelCalled():
            tokens = f"{event.input_tokens} in, {event.output_tokens} out"
            return f"{event.model} answered {event.agent} in {event.duration_ms:.1f} ms ({tokens})"
        case _:
            return event.type.replace("_", " ")


def _moment(event: AnyEvent) -> datetime:
    return datetime.fromtimestamp(event.at / 1000, UTC)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
