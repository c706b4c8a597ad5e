"""What has been spent, folded from the log: each call counts once, from whatever position the log is read on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.requirements import requirement

from health_monitor.spending.fold import Key, SpendingFold
from pallas_contracts.costs import Cost, Spending
from pallas_contracts.turns import ModelCalled, Step, TurnEvents
from pallas_turns.history import spending

MADE = "2026-11-24T00:00:00Z"
TODAY, NOON, NIGHT = "2026-11-25", 1_795_608_000_000, 1_795_651_199_999
"""A day, and the milliseconds of its noon and of its end."""

type Log = list[TurnEvents]


def called(seq: int, caller: str = "user:ada", tokens: int = 10, nanos: int | None = 5, at: int = NOON) -> ModelCalled:
    cost = Cost(nanos=nanos, currency="USD") if nanos is not None else None
    return ModelCalled(
        seq=seq, at=at, agent="harper", model="m", duration_ms=1, input_tokens=tokens, cost=cost, caller=caller
    )


def message(turn: str, *events: ModelCalled | Step, attempt: int = 1, team: str = "demo") -> TurnEvents:
    return TurnEvents(turn_id=turn, team=team, agent="harper", attempt=attempt, events=events)


def folded(log: Log, *, since: str = "2026-11-24") -> SpendingFold:
    fold = SpendingFold(MADE, since)
    read(fold, log)
    return fold


def read(fold: SpendingFold, log: Log) -> None:
    for position, each in enumerate(log, 1):
        fold.take(position, each)


def sums(fold: SpendingFold) -> dict[Key, tuple[int, int, int]]:
    return {key: (it.calls, it.tokens, it.money.get("USD", 0)) for key, it in fold.entries.items()}


def several(turn: str, attempt: int, team: str, calls: list[ModelCalled]) -> TurnEvents:
    return message(turn, *calls, attempt=attempt, team=team)


CALLS = st.builds(called, st.integers(1, 6), st.sampled_from(["user:ada", "user:bob"]), st.integers(0, 9))
MESSAGES = st.builds(
    several,
    st.sampled_from(["t1", "t2", "t3"]),
    st.integers(1, 2),
    st.sampled_from(["demo", "other"]),
    st.lists(CALLS, max_size=3),
)


@requirement("K-cost-3")
@given(st.lists(MESSAGES, max_size=12), st.lists(st.integers(0, 12), min_size=1, max_size=3), st.data())
def test_the_sums_are_those_of_one_reading_whenever_a_process_is_lost(
    log: Log, losses: list[int], data: st.DataObject
) -> None:
    """A process is lost after some messages. Of each sum, any earlier version may be the one that was stored."""
    whole = folded(log)
    stored: dict[Key, Spending] = {}
    fold = SpendingFold(MADE, "2026-11-24")
    for loss in [*losses, len(log)]:
        fold, versions = SpendingFold(MADE, "2026-11-24"), {key: [entry] for key, entry in stored.items()}
        fold.load(stored, len(log))
        for position, each in enumerate(log[:loss], 1):
            fold.take(position, each)
            for key, entry in fold.entries.items():
                versions.setdefault(key, []).append(entry)
        kept = {key: data.draw(st.sampled_from(some)) for key, some in versions.items()}
        stored = {key: entry for key, entry in kept.items() if entry.calls}
    read(fold, log)
    assert sums(fold) == sums(whole)


def test_a_call_that_was_sent_again_counts_once_and_those_of_a_lost_attempt_count() -> None:
    log = [
        message("t1", called(1), called(3)),
        message("t1", called(3), called(4)),
        message("t1", called(1), attempt=2),
        message("t1", called(1)),
    ]
    assert sums(folded(log)) == {(TODAY, "demo", "user:ada"): (4, 40, 20)}


def test_a_call_counts_for_the_day_on_which_it_was_made() -> None:
    log = [message("t1", called(1, at=NIGHT), called(2, at=NIGHT + 1), called(3, at=NOON - 3 * 86_400_000))]
    days = {key[0]: calls for key, (calls, *_) in sums(folded(log)).items()}
    assert days == {TODAY: 1, "2026-11-26": 1}


def test_calls_without_a_price_count_apart() -> None:
    (entry,) = folded([message("t1", called(1, nanos=None), called(2, nanos=7))]).entries.values()
    assert (entry.calls, entry.unpriced_calls, entry.money) == (2, 1, {"USD": 7})


def test_other_events_change_nothing() -> None:
    assert folded([message("t1", Step(seq=1, agent="harper", n=1, kind="llm"))]).entries == {}


def test_sums_of_a_log_that_was_lost_or_is_an_older_copy_count_on() -> None:
    stored = folded([message("t1", called(1)), message("t2", called(1))]).entries
    for made, last in (("2026-11-25T09:00:00Z", 40), (MADE, 1)):
        fold = SpendingFold(made, "2026-11-24")
        fold.load(stored, last)
        fold.take(2, message("t3", called(1)))
        assert sums(fold) == {(TODAY, "demo", "user:ada"): (3, 30, 15)}, made


def test_only_so_many_attempts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "MOST_ATTEMPTS", 2)
    fold = folded(
        [message("t1", called(1)), message("t2", called(1)), message("t1", called(2)), message("t3", called(1))]
    )
    fold.take(5, message("t1", called(1)))
    assert sums(fold) == {(TODAY, "demo", "user:ada"): (4, 40, 20)}, "t1 is remembered, since it was used after t2"


def test_sums_of_earlier_days_are_forgotten() -> None:
    fold = folded([message("t1", called(1))])
    fold.forget_before("2026-11-26")
    assert (fold.entries, fold.changed) == ({}, set())
