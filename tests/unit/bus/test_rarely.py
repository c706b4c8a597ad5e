"""Warnings that an outage repeats."""

import logging
import time

import pytest

from pallas_bus.errors import EVERY, Rarely

log = logging.getLogger("an outage")


def test_each_text_is_logged_once_a_minute_with_the_number_of_those_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warnings = Rarely()
    for second in range(int(3 * EVERY)):
        monkeypatch.setattr(time, "monotonic", lambda now=float(second): now)
        warnings.warn(log, "refused", agent="a")
        warnings.warn(log, "lost")
    logged = [(record.getMessage(), getattr(record, "left_out", 0)) for record in caplog.records]
    assert logged == 1 * [("refused", 0), ("lost", 0)] + 2 * [("refused", 59), ("lost", 59)]
    assert {vars(record).get("agent") for record in caplog.records} == {"a", None}
