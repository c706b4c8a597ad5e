"""Parses times and rates that users type."""

import re
from datetime import UTC, datetime, timedelta

import typer

from pallas_cli.refused import WrongUsage

_SPAN = re.compile(r"^(\d+(?:\.\d+)?)([smhd])$")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NAMES = {"s": "second", "m": "minute", "h": "hour", "d": "day"}


def moment_of(text: str) -> datetime:
    """The time that `text` names: a time span before now (`30m`, `2h`, `7d`), or an ISO 8601 time (UTC by default).

    Raises:
        Refused: `text` is neither.
    """
    return _moment(text, -1)


def moment_ahead(text: str) -> datetime:
    """The time that `text` names: a time span from now, or an ISO 8601 time (UTC by default).

    Raises:
        Refused: `text` is neither.
    """
    return _moment(text, +1)


def _moment(text: str, direction: int) -> datetime:
    try:
        if (span := _SPAN.match(text)) is not None:
            return datetime.now(UTC) + direction * timedelta(seconds=float(span[1]) * _UNITS[span[2]])
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise WrongUsage(f"{text!r} is neither a time span such as 30m, 2h or 7d nor an ISO 8601 time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def since_words(text: str) -> str:
    """The start of a period in words: `in the last 7 days`, or `since` an ISO 8601 time."""
    if (span := _SPAN.match(text)) is None:
        return f"since {text}"
    name = _NAMES[span[2]]
    return f"in the last {name}" if span[1] == "1" else f"in the last {span[1]} {name}s"


def span_of(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Start and end of a period; None means no limit.

    Raises:
        Refused: one cannot be parsed, or the end is before the start.
    """
    begin, end = (_given(name, text) for name, text in (("--since", since), ("--until", until)))
    if begin and end and end < begin:
        raise WrongUsage(f"--until {until} is before --since {since}")
    return begin, end


def is_moment(param: typer.CallbackParam, text: str | None) -> str | None:
    """The text of an option, which names a time.

    Raises:
        WrongUsage: it does not.
    """
    _given(param.opts[0], text)
    return text


def _given(name: str, text: str | None) -> datetime | None:
    try:
        return moment_of(text) if text else None
    except WrongUsage as error:
        raise WrongUsage(*(f"{name} {line}" for line in error.lines)) from error


_RATE = re.compile(r"^(\d+(?:\.\d+)?)(?:/(s|m|h))?$")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def rate_of(text: str) -> float:
    """The times a second that `text` names: `5/s`, `90/m`, or a number.

    Raises:
        Refused: `text` is none, or nothing would ever happen.
    """
    given = _RATE.match(text)
    rate = float(given[1]) / _SECONDS[given[2] or "s"] if given is not None else 0.0
    if not rate:
        raise WrongUsage(f"--rate {text!r} is not a rate such as 5/s or 90/m")
    return rate
