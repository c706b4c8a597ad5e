"""One attempt at the turn of an execution: what it starts from, and how it ends."""

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic_core import to_json

from pallas_bus.transport.retry import retry_while_unavailable
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import PallasError, Superseded
from pallas_contracts.turns import Result, TurnError
from pallas_cst.values import size_of
from pallas_cst.work import LARGE
from pallas_executor.agent_runtime import Completed, Emitter, Failed, Outcome, Turn
from pallas_executor.steps import JournalUnusable, Steps
from pipelines.storing.scopes import Scope, Scopes

log = logging.getLogger(__name__)

START = "0"
"""The place in the journal of what an execution starts from."""
_LONGEST_TEXT = 2**20
_CODES: dict[str, TurnError] = {
    "node_failed": "node_failed",
    "suspended_too_large": "suspended_too_large",
    "resume_in_progress": "resume_in_progress",
    "unavailable": "internal",
}
"""The code of a failed turn by that of the error; `invalid_arguments` otherwise."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at one execution."""

    turn: Turn
    steps: Steps
    emit: Emitter


async def attempted(turn: Turn, emit: Emitter, scopes: Scopes, run: Callable[[Attempt], Awaitable[Outcome]]) -> Outcome:
    """The outcome of `run`, or the failure that its exception stands for. The caller needs the scope `execute`."""
    if turn.model is not None:
        return Failed("unknown_model", "A pipeline has no model that another could stand in for.")
    try:
        scopes.check(turn.principal, Scope.EXECUTE)
        return await run(Attempt(turn, Steps(turn, emit), emit))
    except Superseded:
        raise
    except JournalUnusable as error:
        log.warning("the journal cannot be used", extra={"reason": error.reason})
        message = f"The execution cannot go on where it stopped: {error.reason}. Check before you retry."
        return Failed("worker_lost", message)
    except PallasError as error:
        return Failed(_CODES.get(error.code, "invalid_arguments"), error.message)


async def started(steps: Steps, basis: str, find: Callable[[], Awaitable[str]]) -> str:
    """What an execution starts from: found once, and taken from the journal by later attempts."""
    if (known := steps.answer(START, basis)) is not None:
        return json.loads(known)
    found = await retry_while_unavailable(find, "find what the execution starts from", deadline=None)
    await steps.record(START, basis, json.dumps(found))
    return found


def completed(answer: JsonObject) -> Completed:
    """An answer of a tool: as an object, and as text for clients that read no objects, unless it is very long."""
    small = size_of(answer, LARGE) < LARGE
    text = json.dumps(answer, ensure_ascii=False) if small else to_json(answer).decode()  # ten times as fast
    if len(text) > _LONGEST_TEXT:
        text = f"The answer has {len(text)} characters of JSON: see structuredContent."
    return Completed(Result(content=({"type": "text", "text": text},), structured=answer))
