"""`/executions` and `/history`: executions that wait for inputs, that run, and that there were."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound, PallasError
from pallas_contracts.pipelines import Suspension
from pallas_contracts.turns import Continued, Progress, ToolCompleted, ToolFailed, ToolStarted, TurnAsked
from pallas_turns.claims import BEGINNING, Cursor, TurnRef, stored_outcome
from pallas_turns.model import Observer, TurnEnd
from pipelines.handlers.list_executions import ListExecutions
from pipelines.http.answers import Refused, answer, bare, engine_types_of, picture
from pipelines.http.requests import body_of, caller_of, natural, part_of, received_of
from pipelines.http.runs import execution_told
from pipelines.http.turns import Ended, Turns
from pipelines.running.suspending import Suspensions
from pipelines.storing.history import MOST_IN_PAGE
from pipelines.storing.namespaces import Caller
from pipelines.storing.scopes import Scope

log = logging.getLogger(__name__)

_PING_SECONDS = 15.0
MOST_STREAMS = 64
"""Streams of events of one owner that are open at a time."""
_MOST_UNSENT = 100
"""Events that wait for a caller that reads slowly."""
_LAST_EVENT_ID = "last-event-id"


class _Resume(BaseModel):
    additional_inputs: Annotated[dict[str, Any] | None, Field(alias="additionalInputs")] = None
    resolved_nodes: Annotated[dict[str, Any] | None, Field(alias="resolvedNodes")] = None


@dataclass(frozen=True)
class ExecutionRoutes:
    """The routes. `streams` are the tasks that send events, with their owners; a drain ends them."""

    turns: Turns
    suspensions: Suspensions
    executions: ListExecutions
    streams: dict[asyncio.Task[None], str] = field(default_factory=dict["asyncio.Task[None]", str])

    def routes(self) -> list[Route]:
        """The routes by path."""
        return [
            Route("/executions", self._list),
            Route("/executions/{id}", self._get),
            Route("/executions/{id}", self._delete, methods=["DELETE"]),
            Route("/executions/{id}/resume", self._resume, methods=["POST"]),
            Route("/executions/{id}/events", self._events),
            Route("/executions/{id}/dag.svg", self._svg),
            Route("/history", self._history),
        ]

    async def _list(self, request: Request) -> Response:
        caller = caller_of(request)
        caller.check(Scope.READ)
        found = await self.suspensions.of(caller.principal)
        return answer({"executions": [_suspended(each) for each in found]})

    async def _get(self, request: Request) -> Response:
        """An execution with its calls, and as long as they are kept its outputs; what it waits for, if it does."""
        caller, execution = caller_of(request), _id(request)
        caller.check(Scope.READ)
        described = await self.executions.described(caller, execution)
        if (missing := described.get("missingInputs")) is not None:
            described["missingInputs"] = engine_types_of(missing)
        if (found := await self._waiting(caller, execution)) is not None:
            described |= _suspended(found)
        return answer(bare(described))

    async def _delete(self, request: Request) -> Response:
        """Forget an execution that waits for inputs, or cancel one that runs."""
        caller, execution = caller_of(request), _id(request)
        caller.check(Scope.EXECUTE)
        if await self._waiting(caller, execution) is not None:
            await self.suspensions.forget(execution, caller.principal)
        else:
            ref = await self.turns.own(caller, execution)
            if await stored_outcome(self.turns.calls.bus, ref) is not None:
                raise NotFound(f"Execution '{execution}' has ended")
            await self.turns.calls.cancel(ref, "its caller cancels it", TurnAsked(principal=caller.principal))
        return answer({"deleted": True})

    async def _resume(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Resume)
        caller.check(Scope.EXECUTE)
        if asked.resolved_nodes:
            raise Refused(400, "InvalidRequest", "resolvedNodes: values of nodes cannot be given, only inputs")
        waiting = await self._waiting(caller, _id(request))
        if waiting is None:
            raise _unknown(_id(request))
        arguments = {"executionId": waiting.turn_id, "additionalInputs": asked.additional_inputs or {}}
        tell = partial(_resumed_told, waiting)
        # The status depends on the end: another one may go on with the execution.
        return self.turns.execution(received_of(request), "resume", arguments, tell, early=False)

    async def _waiting(self, caller: Caller, execution: str) -> Suspension | None:
        try:
            return await self.suspensions.get(execution, caller.principal)
        except NotFound:
            return None

    async def _history(self, request: Request) -> Response:
        """Executions of the caller, the latest first: `limit`, `cursor`, and `agent` for one label."""
        query = request.query_params
        limit, cursor, agent = _limit(query.get("limit")), query.get("cursor"), query.get("agent")
        return answer(await self.executions.page(caller_of(request), limit=limit, cursor=cursor, agent=agent))

    async def _svg(self, request: Request) -> Response:
        return picture(await self.executions.svg(caller_of(request), _id(request)))

    async def _events(self, request: Request) -> Response:
        caller = caller_of(request)
        caller.check(Scope.READ)
        behind = _cursor(request.headers.get(_LAST_EVENT_ID))
        ref = await self.turns.own(caller, _id(request))
        if sum(owner == caller.owner for owner in self.streams.values()) >= MOST_STREAMS:
            message = f"You have {MOST_STREAMS} streams of events open. Close one first."
            raise Refused(429, "RateLimitExceeded", message, retry_after=1)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._stream(ref, caller, behind), media_type="text/event-stream", headers=headers)

    async def _stream(self, ref: TurnRef, caller: Caller, behind: Cursor) -> AsyncGenerator[str]:
        events = asyncio.Queue[str](_MOST_UNSENT)
        task = asyncio.create_task(self._follow(ref, behind, events))
        self.streams[task] = caller.owner
        try:
            while True:
                try:
                    async with asyncio.timeout(_PING_SECONDS):
                        event = await events.get()
                except TimeoutError:
                    event = ": ping\n\n"
                yield event
        except asyncio.QueueShutDown:
            return
        finally:
            self.streams.pop(task, None)
            task.cancel()

    async def _follow(self, ref: TurnRef, behind: Cursor, events: asyncio.Queue[str]) -> None:
        try:
            end = await self.turns.calls.resume(ref, behind, _Events(events), progress=True)
            if end is not None:
                await events.put(_last(end))
        except PallasError as error:
            log.warning("the events of an execution end early", extra={"reason": error.message})
        finally:
            events.shutdown()


@dataclass(frozen=True)
class _Events(Observer):
    """Writes what happens in an execution as events. It waits for a caller that reads slowly."""

    events: asyncio.Queue[str]
    listens = True

    async def on_event(self, event: object, cursor: Cursor, /) -> None:
        match event:
            case ToolStarted(call=call, server=server, tool=tool):
                said = _called(call, server, tool, "started")
            case ToolCompleted(call=call, server=server, tool=tool):
                said = _called(call, server, tool, "completed") | {"durationMs": event.duration_ms}
            case ToolFailed(call=call, server=server, tool=tool):
                said = _called(call, server, tool, "failed") | {"durationMs": event.duration_ms, "code": event.code}
            case Progress(message=str(message)):
                said = {"message": message, "progress": event.progress, "total": event.total}
            case Continued():
                said = {"message": f"goes on (attempt {cursor.attempt})", "attempt": cursor.attempt}
            case _:
                return
        await self._write(said, cursor)

    async def on_queued(self, ahead: int) -> None:
        await self._write({"message": f"queued: {ahead} ahead", "ahead": ahead})

    async def on_attempt(self, attempt: int) -> None:
        await self._write({"message": f"begins again (attempt {attempt})", "attempt": attempt})

    async def _write(self, said: JsonObject, cursor: Cursor | None = None) -> None:
        await self.events.put(_event("progress", said, cursor))


def _called(call: str, server: str, tool: str, status: str) -> JsonObject:
    return {"message": f"{server}/{tool}: {status}", "place": call.rpartition(".")[0], "status": status}


def _last(end: TurnEnd) -> str:
    status = end.outcome.status
    return _event("end", {"message": f"execution {status}", "status": status, "code": end.outcome.code}, end.cursor)


def _event(kind: str, said: JsonObject, cursor: Cursor | None = None) -> str:
    named = f"id: {cursor.attempt}-{cursor.event}\n" if cursor is not None else ""
    return f"{named}event: {kind}\ndata: {json.dumps(said)}\n\n"


def _cursor(given: str | None) -> Cursor:
    """The cursor in an event's id."""
    if given is None:
        return BEGINNING
    attempt, event = (natural(part) for part in given.partition("-")[::2])
    if attempt is None or event is None:
        raise Refused(400, "InvalidHeader", "The header Last-Event-ID is not one of this service.")
    return Cursor(attempt, event)


def _limit(given: str | None) -> int:
    if given is None:
        return 20
    if (limit := natural(given)) is None:
        raise Refused(400, "InvalidRequest", "limit: must be a number")
    return max(1, min(limit, MOST_IN_PAGE))


def _id(request: Request) -> str:
    """The id in the path; clients of the engine may write it as a UUID with hyphens."""
    return part_of(request, "id").replace("-", "")


def _unknown(execution: str) -> NotFound:
    return NotFound(f"Execution '{execution[:100]}' not found")


def _suspended(each: Suspension) -> JsonObject:
    return {
        "executionId": each.turn_id,
        "structuralHash": each.structural_hash,
        "resumptionCount": each.resumptions,
        "missingInputs": engine_types_of(each.missing),
        "createdAt": each.created_at.isoformat(),
    }


def _resumed_told(waiting: Suspension, ended: Ended) -> tuple[int, JsonObject]:
    match ended.code:
        case "resume_in_progress":
            return 409, {"error": "ResumeInProgress", "message": ended.message}
        case "invalid_arguments":
            return 400, {"success": False, "error": ended.message}
        case _:
            return execution_told(ended, also={"structuralHash": waiting.structural_hash, "compilationErrors": []})
