"""Times as people type them."""

import re
from datetime import UTC, datetime, timedelta

from pallas_cli.refused import Refused

_SPAN = re.compile(r"^(\d+(?:\.\d+)?)([smhd])$")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def moment_of(text: str) -> datetime:
    """When `text` means: a span back from now (`30m`, `2h`, `7d`) or an ISO 8601 time, in UTC when it names no zone.

    Raises:
        Refused: it is neither.
    """
    return _moment(text, -1)


def moment_ahead(text: str) -> datetime:
    """The same, with a span from now on.

    Raises:
        Refused: it is neither.
    """
    return _moment(text, +1)


def _moment(text: str, direction: int) -> datetime:
    try:
        if (span := _SPAN.match(text)) is not None:
            return datetime.now(UTC) + direction * timedelta(seconds=float(span[1]) * _UNITS[span[2]])
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise Refused(f"{text!r} is neither a span such as 30m, 2h or 7d nor an ISO 8601 time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def span_of(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """The two ends of a span of time, None where it is open.

    Raises:
        Refused: one is no time, or it ends before it begins.
    """
    begin, end = (moment_of(text) if text else None for text in (since, until))
    if begin and end and end < begin:
        raise Refused(f"--until {until} is before --since {since}")
    return begin, end
