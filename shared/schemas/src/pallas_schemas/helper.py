"""The process in which schemas are compiled and values checked that are not small; `apart.py` starts it.

It imports no more than it needs, so that it starts soon. Each step of a request has a limit of processor time, at which
the kernel ends the process (SIGPROF), whatever runs: on a busy machine an honest check may take long, but it does not
cost more. `WHOLE_SECONDS` bound a request by the clock. The process also ends when its pipe closes.

A request is a line with a JSON text in it, the schema, and one with the value, empty for the schema alone. An answer is
a line with JSON, too: `final`, and `faults` or `rejected`. One that is not final says what is known so far.
"""

import json
import resource
import signal
import sys
from collections import OrderedDict
from contextlib import suppress
from typing import Any, BinaryIO

from pallas_contracts.errors import Rejected
from pallas_schemas.tool_schema import MOST_EXPLAINED, UNEXPLAINED, ToolSchema
from pallas_schemas.work import LONG_NUMBERS, TOO_MUCH, TooMuch

STEP_SECONDS = 0.2
COUNT_SECONDS = 0.5
"""For reading a value and its count, which is bounded by itself (see `work.py`): 0.2 s at most on most machines."""
WHOLE_SECONDS = 10.0
MEMORY_BYTES = 1 << 29
_REMEMBERED = 8
_MOST_FAULTS = 100
_SHORT, _LONGEST, _MOST_LONG = 18, 100, 1_000
"""Digits of numbers that take no time to compare, those of the longest, and how many may be long."""


def main() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for ending in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(ending, signal.SIG_DFL)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    known = OrderedDict[bytes, ToolSchema]()
    while schema := requests.readline():
        signal.setitimer(signal.ITIMER_REAL, WHOLE_SECONDS)
        value = requests.readline()
        try:
            _send(answers, faults=_faults(answers, _compiled(known, schema), value))
        except Rejected as error:
            _send(answers, rejected=error.message)
        except _LongNumbers:
            _send(answers, faults=[LONG_NUMBERS])
        _limit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)


class _LongNumbers(Exception):
    """Numbers take time that grows with the square of their length to compare, wherever they are."""


def _loads(text: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        _LongNumbers: there are too many, or too long ones.
    """
    left = _MOST_LONG

    def read(digits: str) -> int:
        nonlocal left
        left -= len(digits) > _SHORT
        if left < 0 or len(digits) > _LONGEST:
            raise _LongNumbers
        return int(digits)

    return json.loads(text, parse_int=read)


def _limit(seconds: float) -> None:
    """Let what follows take this much processor time."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _compiled(known: OrderedDict[bytes, ToolSchema], schema: bytes) -> ToolSchema:
    if schema not in known:
        _limit(STEP_SECONDS)
        known[schema] = ToolSchema(_loads(schema))
    known.move_to_end(schema)
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
    return known[schema]


def _faults(answers: BinaryIO, schema: ToolSchema, text: bytes) -> list[str]:
    if not text.strip():
        return []
    try:
        _limit(COUNT_SECONDS)
        value = _loads(text)
        visits = schema.count(value)
    except TooMuch as error:
        return [str(error)]
    except (ValueError, RecursionError, MemoryError):
        return [TOO_MUCH]
    _limit(STEP_SECONDS)
    if schema.fits(value):
        return []
    if visits > MOST_EXPLAINED:
        return [UNEXPLAINED]
    _send(answers, final=False, faults=[UNEXPLAINED])
    _limit(STEP_SECONDS)
    return schema.explained(value)[:_MOST_FAULTS]


def _send(answers: BinaryIO, *, final: bool = True, **answer: Any) -> None:
    answers.write(json.dumps({"final": final, **answer}).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
