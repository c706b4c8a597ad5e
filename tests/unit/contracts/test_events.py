"""Every event has one class, and its class says how long it is kept."""

from typing import get_args

import pytest
from pydantic import ValidationError

from pallas_contracts.turns import (
    AnyEvent,
    ContentEvent,
    Fault,
    FinalEvent,
    InputRequired,
    KnownEvent,
    LogEvent,
    Result,
    Step,
    TurnEvent,
    TurnEvents,
    UnknownEvent,
    events_of,
)

KNOWN: tuple[type[TurnEvent], ...] = get_args(KnownEvent.__value__)


def read(*events: str) -> tuple[AnyEvent, ...]:
    return TurnEvents.model_validate_json(
        f'{{"turn_id": "t", "team": "demo", "agent": "harper", "attempt": 1, "events": [{", ".join(events)}]}}'
    ).events


def leaves(kind: type[TurnEvent]) -> set[type[TurnEvent]]:
    below = kind.__subclasses__()
    return {leaf for each in below for leaf in leaves(each)} if below else {kind}


def test_every_event_class_is_known_and_is_either_log_or_content() -> None:
    assert leaves(TurnEvent) - {UnknownEvent} == set(KNOWN)
    assert events_of(LogEvent) | events_of(ContentEvent) == set(KNOWN)
    assert not events_of(LogEvent) & events_of(ContentEvent)
    assert events_of(FinalEvent) == {Result, InputRequired, Fault}


def test_an_event_of_a_later_release_keeps_its_number() -> None:
    step = '{{"type": "step", "seq": {}, "agent": "harper", "n": 1, "kind": "llm"}}'
    first, news, last = read(step.format(1), '{"type": "paused", "seq": 2, "at": 7, "why": {"x": 1}}', step.format(3))
    assert (type(first), type(last)) == (Step, Step)
    assert news == UnknownEvent(type="paused", seq=2, at=7)


@pytest.mark.parametrize(
    "event", ['{"type": "step", "seq": 1}', '{"seq": 1}', '{"type": "Not a word", "seq": 1}', '{"type": 1}']
)
def test_a_malformed_event_is_refused_and_not_read_as_unknown(event: str) -> None:
    with pytest.raises(ValidationError):
        read(event)
