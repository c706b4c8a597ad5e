"""Times as people type them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from pallas_cli.moments import moment_ahead, moment_of, since_words
from pallas_cli.refused import Refused


@pytest.mark.parametrize(("read", "sign"), [(moment_of, -1), (moment_ahead, 1)])
def test_a_time_span_counts_from_now_and_a_time_is_absolute(read: Callable[[str], datetime], sign: int) -> None:
    before = datetime.now(UTC)
    assert timedelta() <= read("2h") - before - sign * timedelta(hours=2) < timedelta(minutes=1)
    assert read("2027-01-02T03:04+01:00") == datetime(2027, 1, 2, 2, 4, tzinfo=UTC)
    assert read("2027-01-02") == datetime(2027, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "2 h", "999999999999d", ""])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="neither a time span"):
        moment_ahead(text)


def test_a_period_is_named_in_words() -> None:
    assert [since_words(text) for text in ("7d", "1h", "1.5m")] == [
        "in the last 7 days",
        "in the last hour",
        "in the last 1.5 minutes",
    ]
    assert since_words("2027-01-02") == "since 2027-01-02"
