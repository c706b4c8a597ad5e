"""A server that sends too much is read slowly."""

import pytest

from pallas_mcp_calls.pace import Pace


def test_what_exceeds_the_allowance_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("pallas_mcp_calls.pace.time.monotonic", lambda: clock[0])
    pace = Pace(burst=10, rate=5)
    assert [pace.take(4), pace.take(6)] == [0, 0]
    assert pace.take(10) == 2.0
    clock[0] += 2
    assert pace.take(0) == 0
    assert pace.take(1) == 0.2
    clock[0] += 3600
    assert [pace.take(10), pace.take(5)] == [0, 1.0], "the allowance never grows beyond its burst"
