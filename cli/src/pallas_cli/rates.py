"""Parses rates that users type."""

import re

from pallas_cli.refused import WrongUsage

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
