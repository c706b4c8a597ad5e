"""Journals made of the events of attempts, as the log would have them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pallas_contracts.turns import AnyEvent
from pallas_turns.journal import Journal, LoggedAttempt, fold_journal

BEGAN = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def attempt_of(number: int, events: Sequence[AnyEvent], *, missing: Sequence[int] = ()) -> LoggedAttempt:
    """An attempt that was claimed `number` seconds after `BEGAN`, with numbered events, of which some are missing."""
    numbered = {seq: event for seq, event in enumerate(events, 1) if seq not in missing}
    return LoggedAttempt(number, BEGAN + timedelta(seconds=number), {}, numbered)


def journal_of(*attempts: Sequence[AnyEvent]) -> Journal:
    """The journal that the next attempt gets after attempts with these events."""
    logged = [attempt_of(number, events) for number, events in enumerate(attempts, 1)]
    return fold_journal(logged, len(attempts) + 1)
