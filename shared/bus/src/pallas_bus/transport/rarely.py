"""Warnings that an outage repeats: each text once a minute, with the number of those left out."""

import logging
import math
import time
from dataclasses import dataclass, field

EVERY = 60.0
"""Seconds between two lines with the same text."""


@dataclass
class Rarely:
    """What was logged last, by text: when, and how many were left out since."""

    _logged: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])

    def warn(self, log: logging.Logger, text: str, **facts: object) -> None:
        """Log a warning with its facts, unless the same text was logged less than a minute ago."""
        now = time.monotonic()
        at, left_out = self._logged.get(text, (-math.inf, 0))
        if now - at < EVERY:
            self._logged[text] = at, left_out + 1
            return
        self._logged[text] = now, 0
        log.warning(text, extra=facts | ({"left_out": left_out} if left_out else {}))
