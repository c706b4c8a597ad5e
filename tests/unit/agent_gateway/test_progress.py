"""Progress lines: the contract's messages in both eras, with the values of each era."""

from typing import Any

import pytest

from agent_gateway.answers.progress import (
    Line,
    ProgressObserver,
    line_of,
    wanted_levels,
)
from pallas_contracts.turns import (
    Continued,
    LogMessage,
    ModelCalled,
    Progress,
    Result,
    Step,
    TextDelta,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolStarted,
    TurnEvent,
)
from pallas_turns.claims import Cursor

TOOL: dict[str, Any] = {"call": "1", "server": "argos", "tool": "search"}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Step(agent="harper", n=2, kind="llm"), Line(2, None, "harper step 2 (llm)")),
        (Step(agent="harper", n=3, kind="tool"), Line(3, None, "harper step 3 (tool)")),
        (ToolStarted(**TOOL), Line(0, None, "argos/search: started")),
        (ToolCompleted(**TOOL, duration_ms=1), Line(1, 1, "argos/search: completed")),
        (ToolFailed(**TOOL, duration_ms=1, code="tool_error"), Line(1, 1, "argos/search: failed")),
        (ToolProgress(**TOOL, progress=1, total=4, message="page one"), Line(0, None, "argos/search: page one")),
        (ToolProgress(**TOOL, progress=1.5, total=4), Line(0, None, "argos/search: 1.5 of 4")),
        (ToolProgress(**TOOL, progress=3), Line(0, None, "argos/search: 3")),
        (Progress(progress=50, total=100, message="half"), Line(50, 100, "half")),
        (TextDelta(agent="harper", text="hello"), None),
        (ModelCalled(agent="harper", model="offline", duration_ms=1), None),
        (Result(), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, TurnEvent) else "",
)
def test_an_event_becomes_the_progress_line_of_the_contract(event: TurnEvent, line: Line | None) -> None:
    assert line_of(event) == line


class Caller:
    """A caller that keeps the progress lines and the levels of log messages it gets."""

    def __init__(self, *, modern: bool, progress: bool = True) -> None:
        self.lines: list[Line] = []
        self.logs: list[str] = []
        self.observer = ProgressObserver("harper", modern, self._report if progress else None, self._log)

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        self.lines.append(Line(progress, total, message))

    async def _log(self, message: LogMessage) -> None:
        self.logs.append(message.level)

    async def notify(self, *events: object) -> list[Line]:
        for event in events:
            await self.observer.on_event(event)
        return self.lines


TURN = (
    Step(agent="harper", n=1, kind="llm"),
    ToolStarted(**TOOL),
    ToolProgress(**TOOL, progress=1, message="page one"),
    ToolCompleted(**TOOL, duration_ms=1),
    TextDelta(agent="harper", text="hello"),
    Step(agent="harper", n=2, kind="llm"),
)
MESSAGES = [
    "harper queued: 3 ahead",
    "harper attempt 2: taken up again",
    "harper step 1 (llm)",
    "argos/search: started",
    "argos/search: page one",
    "argos/search: completed",
    "harper step 2 (llm)",
]


@pytest.mark.parametrize(
    ("modern", "values"),
    [
        (False, [(0, None), (0, None), (1, None), (0, None), (0, None), (1, 1), (2, None)]),
        (True, [(1, None), (2, None), (3, None), (4, None), (5, None), (6, None), (7, None)]),
    ],
    ids=["handshake", "modern"],
)
async def test_a_turn_has_the_same_messages_in_both_eras_with_the_values_of_each(
    modern: bool, values: list[tuple[float, float | None]]
) -> None:
    caller = Caller(modern=modern)
    await caller.observer.on_queued(3)
    await caller.observer.on_attempt(2)
    lines = await caller.notify(*TURN)
    assert [line.message for line in lines] == MESSAGES
    assert [(line.progress, line.total) for line in lines] == values


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
async def test_only_the_modern_era_is_notified_that_a_later_attempt_goes_on(modern: bool) -> None:
    caller = Caller(modern=modern)
    await caller.observer.on_event(Continued(n=7, taken=("1",)), Cursor(2, 1))
    expected = [Line(1, None, "harper continues (attempt 2, step 7)")] if modern else []
    assert caller.lines == expected


async def test_a_functions_own_progress_is_passed_on_unchanged() -> None:
    own = [Progress(progress=value, total=100) for value in (0, 50, 100)]
    for modern in (False, True):
        lines = await Caller(modern=modern).notify(*own)
        assert [(line.progress, line.total) for line in lines] == [(0, 100), (50, 100), (100, 100)]


async def test_values_of_the_modern_era_rise_even_when_a_function_repeats_or_lowers_its_own() -> None:
    own = [Progress(progress=value) for value in (0, 0, 5, 5, 3)]
    lines = await Caller(modern=True).notify(TURN[0], *own, TURN[-1])
    assert len(lines) == 7
    values = [line.progress for line in lines]
    assert values == sorted(set(values))


async def test_values_of_the_modern_era_rise_from_a_repeated_zero() -> None:
    lines = await Caller(modern=True).notify(Progress(progress=0), Progress(progress=0), Progress(progress=0))
    values = [line.progress for line in lines]
    assert len(values) == 3
    assert values == sorted(set(values))


async def test_a_caller_without_a_progress_token_gets_log_messages_only() -> None:
    caller = Caller(modern=True, progress=False)
    await caller.observer.on_queued(1)
    await caller.notify(TURN[0], LogMessage(level="info", data="x"))
    assert (caller.lines, caller.logs) == ([], ["info"])


@pytest.mark.parametrize(
    ("least", "modern", "wanted"),
    [
        ("error", True, {"error", "critical", "alert", "emergency"}),
        ("error", False, {"error", "critical", "alert", "emergency"}),
        ("loud", False, set[str]()),
        (None, True, set[str]()),
    ],
)
def test_log_messages_of_the_level_and_above_are_wanted(least: str | None, modern: bool, wanted: set[str]) -> None:
    assert wanted_levels(least, modern=modern) == wanted


def test_a_handshake_era_caller_without_a_level_wants_all_log_messages() -> None:
    assert {"debug", "emergency"} < wanted_levels(None, modern=False)
