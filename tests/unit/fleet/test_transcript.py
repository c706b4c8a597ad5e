"""Which messages of a conversation are those of a task."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from fleet.handlers.wait_task import messages_of
from fleet.terminal.agent_api import Said
from pallas_contracts.fleet import FleetTask

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def said(number: int, role: Literal["user", "agent"], text: str) -> Said:
    return Said(id=number, role=role, text=text, at=NOON + timedelta(minutes=number))


CONVERSATION = [
    said(0, "agent", "Hello"),
    said(1, "user", "go on\nplease"),
    said(2, "agent", "one"),
    said(3, "user", "go on\nplease"),
    said(4, "agent", "two"),
    said(5, "agent", "three"),
    said(6, "user", "stop"),
]


def task(ended: float | None = None, **fields: Any) -> FleetTask:
    known: dict[str, Any] = {"source": "human", "summary": "go on", "started_at": NOON, "status": "completed"} | fields
    at = NOON + timedelta(minutes=ended) if ended is not None else None
    return FleetTask(turn_id="a" * 32, number=1, agent="papi", created_at=NOON, completed_at=at, **known)


@pytest.mark.parametrize(
    ("which", "ids"),
    [
        (task(message=1), [1, 2]),
        (task(message=3), [3, 4, 5]),
        (task(message=6, summary="stop"), [6]),
        (task(message=2), []),  # of a conversation before this one
        (task(message=6), []),
        (task(message=9), []),
        (task(2.5), [1, 2]),  # typed in Coder
        (task(), [3, 4, 5]),
        (task(0.5), []),
        (task(summary="works on its own"), []),
        (task(started_at=None), []),
    ],
)
def test_the_messages_of_a_task_begin_with_its_prompt(which: FleetTask, ids: list[int]) -> None:
    assert [it.id for it in messages_of(which, CONVERSATION)] == ids
