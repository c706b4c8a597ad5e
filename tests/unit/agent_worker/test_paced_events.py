"""What tools report is stored within bounds, and the last report always arrives."""

import pytest
from tests.runtimes import Events
from tests.waiting import eventually

from pallas_contracts.turns import KnownEvent, LogMessage, Progress, ToolCompleted, ToolProgress
from pallas_turns import events as paced_events
from pallas_turns.events import ALLOWANCE, BURST, LONGEST_REPORT, PacedEvents

DONE = ToolCompleted(call="1.1", server="s", tool="t", duration_ms=1.0)


def report(number: int, call: str = "1.1", text: str | None = None) -> ToolProgress:
    return ToolProgress(call=call, server="s", tool="t", progress=number, message=text)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Events:
    """What is stored. No time passes for the rate."""
    monkeypatch.setattr(paced_events, "PER_SECOND", 1e-6)
    return Events()


async def test_of_many_reports_some_are_stored_and_the_last_one_before_the_end_of_its_call(stored: Events) -> None:
    paced = PacedEvents(stored)
    for number in range(10_000):
        paced.emit(report(number))
    paced.emit(DONE)
    *_, last, done = stored.all
    assert (last, done) == (report(9_999), DONE)
    assert len(stored.all) == BURST + 2


@pytest.mark.parametrize("last", [report(99), Progress(progress=99)])
async def test_the_last_report_of_an_attempt_that_ends_is_stored(stored: Events, last: KnownEvent) -> None:
    paced = PacedEvents(stored)
    for number in range(99):
        paced.emit(last.model_copy(update={"progress": number}))
    paced.emit(last)
    paced.end()
    assert stored.all[-1] == last


async def test_each_call_has_a_rate_of_its_own(stored: Events) -> None:
    paced = PacedEvents(stored)
    for number in range(100):
        paced.emit(report(number, "1.1"))
    paced.emit(report(1, "1.2"))
    assert stored.all[-1] == report(1, "1.2")
    paced.end()


async def test_a_report_that_waited_is_stored_as_soon_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced_events, "PER_SECOND", 100.0)
    stored = Events()
    paced = PacedEvents(stored)
    for number in range(100):
        paced.emit(report(number))
    await eventually(lambda: stored.all[-1] == report(99))
    paced.end()


async def test_a_text_is_cut_and_made_valid(stored: Events) -> None:
    paced = PacedEvents(stored)
    paced.emit(report(1, text="\ud83d" + "x" * 1_000_000))
    (event,) = stored.of(ToolProgress)
    assert event.message == "\ufffd" + "x" * (LONGEST_REPORT - 2) + "…"


async def test_behind_the_allowance_reports_have_no_text_and_log_messages_are_left_out(stored: Events) -> None:
    paced = PacedEvents(stored)
    for number in range(1_000):
        paced.emit(report(number, f"1.{number}", "x" * LONGEST_REPORT))
        paced.emit(LogMessage(level="info", data="y" * 1_000))
    assert sum(len(event.model_dump_json()) for event in stored.all) < 1.3 * ALLOWANCE
    assert stored.all[-1] == report(999, "1.999"), "numbers still arrive"
    paced.end()


async def test_a_log_message_that_is_no_json_passes(stored: Events) -> None:
    paced = PacedEvents(stored)
    paced.emit(LogMessage(level="info", data=object()))
    assert len(stored.all) == 1
