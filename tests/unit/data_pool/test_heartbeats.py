"""What follows from the heartbeats of an agent, and from those that are missing."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.requirements import requirement
from tests.unit.data_pool.test_registration import FLAT, read

from data_pool.hosting import silence, trouble_of
from pallas_contracts.data_agents import DataAgent, Heartbeat
from pallas_contracts.turns import Principal

START = datetime(2026, 11, 23, tzinfo=UTC)


def an_agent(interval: float | None) -> DataAgent:
    """An agent that registered at the start."""
    return DataAgent(
        agent="binance_agent",
        owner=Principal(),
        definition=read(FLAT).definition,
        heartbeat_interval=interval,
        registered_at=START,
    )


def status(interval: float | None, after: float, beat: Heartbeat | None = None) -> str:
    """The status of the agent so many seconds after the start."""
    trouble = trouble_of(an_agent(interval), beat, START + timedelta(seconds=after))
    return trouble.status if trouble is not None else "ok"


def a_beat(word: str = "active", at: float = 0.0) -> Heartbeat:
    """A heartbeat so many seconds after the start."""
    return Heartbeat(agent="binance_agent", status=word, at=START + timedelta(seconds=at))


@requirement("D-5.3")
@pytest.mark.parametrize("beat_at", [0.0, 1000.0])
@pytest.mark.parametrize(
    ("silent", "expected"),
    [(0, "ok"), (60, "ok"), (90, "ok"), (90.1, "degraded"), (180, "degraded"), (180.1, "error"), (9999, "error")],
)
def test_an_agent_that_is_silent_is_degraded_and_then_failed(silent: float, expected: str, beat_at: float) -> None:
    assert status(60, beat_at + silent, a_beat(at=beat_at)) == expected


def test_an_agent_without_an_interval_may_be_silent() -> None:
    assert status(None, 1_000_000) == "ok"


def test_the_registration_counts_until_the_first_heartbeat() -> None:
    assert status(60, 89) == "ok"
    assert status(60, 91) == "degraded"
    assert silence(an_agent(60), a_beat(at=-500), START + timedelta(seconds=7)) == 7


@requirement("D-3.3.1")
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *((word, "ok") for word in ("active", "idle", "ready", "busy", "ok", " Active ")),
        *((word, "degraded") for word in ("degraded", "draining", "overloaded", "singing")),
        *((word, "error") for word in ("error", "failed", "stopped", "INACTIVE")),
    ],
)
def test_an_agents_own_word_counts(word: str, expected: str) -> None:
    assert status(None, 1, a_beat(word)) == expected


def test_the_worse_of_two_troubles_is_reported() -> None:
    assert status(60, 100, a_beat("failed")) == "error"
    assert status(60, 200, a_beat("overloaded")) == "error"
    trouble = trouble_of(an_agent(60), a_beat("singing"), START)
    assert trouble is not None
    assert trouble.reason == "it says 'singing'"
