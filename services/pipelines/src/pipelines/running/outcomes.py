"""How the turn of an execution ends."""

import json
import logging
from collections.abc import Awaitable, Callable

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import PallasError, Superseded
from pallas_contracts.turns import Result, TurnError
from pallas_cst.faults import Faulty
from pallas_executor.agent_runtime import Completed, Emitter, Failed, Outcome, Turn
from pallas_executor.steps import JournalUnusable, Steps
from pipelines.programs.program import errors_of

log = logging.getLogger(__name__)

_MOST_FAULTS = 10

_CODES: dict[str, TurnError] = {
    "node_failed": "node_failed",
    "suspended_too_large": "suspended_too_large",
    "resume_in_progress": "resume_in_progress",
    "unavailable": "internal",
}
"""The code of a failed turn by that of the error; `invalid_arguments` otherwise."""


async def ended(turn: Turn, emit: Emitter, run: Callable[[Steps], Awaitable[Outcome]]) -> Outcome:
    """The outcome of `run`, or the failure that its exception stands for."""
    try:
        return await run(Steps(turn, emit))
    except Superseded:
        raise
    except JournalUnusable as error:
        log.warning("the journal cannot be used", extra={"reason": error.reason})
        message = f"The execution cannot go on where it stopped: {error.reason}. Check before you retry."
        return Failed("worker_lost", message)
    except PallasError as error:
        return Failed(_CODES.get(error.code, "invalid_arguments"), error.message)


def completed(answer: JsonObject) -> Completed:
    """An answer of a tool: as an object, and as text for clients that read no objects."""
    text = {"type": "text", "text": json.dumps(answer, ensure_ascii=False)}
    return Completed(Result(content=(text,), structured=answer))


def faults_text(source: str, faulty: Faulty) -> str:
    """The faults of a program in one message, a line for each."""
    found = errors_of(source, faulty)
    lines = [f"line {it['line']}, column {it['column']}: {it['code']} {it['message']}" for it in found[:_MOST_FAULTS]]
    more = [f"and {len(found) - _MOST_FAULTS} more"] if len(found) > _MOST_FAULTS else []
    return "\n".join(["The program has faults:", *lines, *more])
