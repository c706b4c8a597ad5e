"""Slows down a server that sends more than anybody can use, or refuses it, so that it cannot keep this process busy."""

import re
import time

MOST_VALUES = 500_000
"""Values of one message. The SDK makes objects of them on the event loop: this is some tenths of a second."""
END_OF_EVENT = (b"\n\n", b"\n\r\n")
_OBJECT = 10
"""An object takes as long as so many numbers."""
_LINE_END = re.compile(rb"[\r\n]")


class Pace:
    """An allowance of `burst`, which grows by `rate` a second. `take` returns how many seconds to wait."""

    def __init__(self, burst: float, rate: float) -> None:
        self._left = self._burst = burst
        self._rate = rate
        self._at = time.monotonic()

    def take(self, amount: float) -> float:
        """Take from the allowance; what is missing must be waited for."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - amount
        self._at = now
        return max(0.0, -self._left / self._rate)


class Values:
    """Counts the values in a message while it arrives, whatever it is. What stands in texts is none."""

    def __init__(self) -> None:
        self._count = 0
        self._in_text = False
        self._escaped = False

    def take(self, part: bytes, *ends: bytes) -> int:
        """How many values the message has so far. Each of `ends` is the end of a message."""
        if (end := max(map(part.rfind, ends), default=-1)) >= 0:
            part, self._count, self._in_text, self._escaped = part[end:], 0, False, False
        if self._escaped:
            part = b" " + part[1:]
        part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        self._escaped = part.endswith(b"\\")
        for number, line in enumerate(_LINE_END.split(part)):
            self._in_text = self._in_text and number == 0  # no text of JSON has the end of a line
            pieces = line.split(b'"')
            outside = b"".join(pieces[self._in_text :: 2])
            self._count += outside.count(b",") + outside.count(b"[") + _OBJECT * outside.count(b"{")
            self._in_text ^= len(pieces) % 2 == 0
        return self._count
