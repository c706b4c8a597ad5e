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
from typing import Any, BinaryIO

from pallas_contracts.errors import Rejected
from pallas_schemas.tool_schema import MOST_EXPLAINED, TOO_MUCH, UNEXPLAINED, ToolSchema
from pallas_schemas.work import TooMuch

STEP_SECONDS = 0.2
COUNT_SECONDS = 0.5
"""The count is bounded by itself (see `work.py`), and takes 0.2 s at most on most machines."""
WHOLE_SECONDS = 10.0
MEMORY_BYTES = 1 << 29
_REMEMBERED = 8
_MOST_FAULTS = 100


def main() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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
        _limit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit(seconds: float) -> None:
    """Let what follows take this much processor time."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _compiled(known: OrderedDict[bytes, ToolSchema], schema: bytes) -> ToolSchema:
    if schema not in known:
        _limit(STEP_SECONDS)
        known[schema] = ToolSchema(json.loads(schema))
    known.move_to_end(schema)
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
    return known[schema]


def _faults(answers: BinaryIO, schema: ToolSchema, text: bytes) -> list[str]:
    if not text.strip():
        return []
    _limit(COUNT_SECONDS)
    try:
        value = json.loads(text)
        visits = schema.count(value)
    except TooMuch as error:
        return [str(error)]
    except (ValueError, RecursionError):
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
