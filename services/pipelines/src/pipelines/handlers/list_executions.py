"""Past and running executions: lists, what each has called, and its picture coloured by that (RFC-018, phase 4)."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from pallas_bus.connection import Bus
from pallas_bus.reads import read, read_newest
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import TURN_CONTENT, TURN_LOG
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.pipelines import Suspension
from pallas_contracts.turns import Answered, Fault, Result, TurnEvents
from pallas_cst.dag import Graph, graph
from pallas_cst.labels import State
from pallas_cst.svg import svg
from pallas_turns.claims import TurnRef
from pallas_turns.content import whole_result
from pipelines.handlers.views import readable_source
from pipelines.programs import Compiler, Program
from pipelines.running.children import START
from pipelines.running.suspending import Suspensions
from pipelines.storing.history import CallMade, Execution, ExecutionDetail, Executions
from pipelines.storing.namespaces import Caller
from pipelines.storing.pipelines import StoredPipelines
from pipelines.storing.scopes import Scope


@dataclass(frozen=True)
class ListExecutions:
    """The executions that a caller may see: its own."""

    bus: Bus
    executions: Executions
    suspensions: Suspensions
    compiler: Compiler
    store: StoredPipelines

    async def page(
        self, caller: Caller, *, limit: int = 20, cursor: str | None = None, agent: str | None = None
    ) -> JsonObject:
        """`{executions, cursor?}`, the latest first. Those that wait for inputs are `suspended`.

        Raises:
            Rejected: the cursor is none of ours (`bad_cursor`).
        """
        page = await self.executions.page(caller, limit=limit, cursor=cursor, agent=agent)
        more = {} if page.cursor is None else {"cursor": page.cursor}
        waiting = await self.suspensions.waiting(caller.principal)
        suspended = [{"status": "suspended"} if each.id in waiting else {} for each in page.executions]
        documents = [each.document() | said for each, said in zip(page.executions, suspended, strict=True)]
        return {"executions": documents, **more}

    async def described(self, caller: Caller, execution_id: str) -> JsonObject:
        """An execution, the calls it made, its outputs while they are kept, and what it waits for if it is suspended.

        Raises:
            NotFound: the caller has no such execution.
        """
        detail = await self.executions.execution(caller, execution_id)
        answer = detail.execution.document() | {"calls": [call.document() for call in detail.calls]}
        if caller.scope < Scope.ADMIN or caller.made(detail.execution.principal):
            answer = await self._answered(detail.execution) | answer
        try:
            waits = await self.suspensions.get(execution_id, caller.principal)
        except NotFound:
            return answer
        if waits.resumptions:  # the outputs so far are those of another turn
            answer.pop("outputs", None)
        said = {"missingInputs": waits.missing, "pendingOutputs": list(waits.pending)}
        return answer | {"status": "suspended"} | said

    async def _answered(self, execution: Execution) -> JsonObject:
        """What an execution answered: the last event of its turn, while that is kept."""
        record = await read_newest(self.bus, TURN_LOG.name, execution.ref.on(TURN_CONTENT.template))
        if execution.status == "running" or record is None:
            return {}
        match TurnEvents.model_validate_json(record.data).events[-1]:
            case Result() as result:
                with suppress(NotFound, Rejected):  # it is not kept any more
                    return (await whole_result(self.bus, execution.ref, result)).structured or {}
            case Fault(message=message):
                return {"success": False, "error": message}
            case _:
                pass
        return {}

    async def svg(self, caller: Caller, execution_id: str) -> str:
        """The picture of an execution's program, in which calls have the colours of their states.

        Raises:
            NotFound: the caller has no such execution, or its program is not kept any more.
            Rejected: its program has faults with the modules of now (`faulty_program`).
        """
        caller.check(Scope.READ)
        detail = await self.executions.execution(caller, execution_id)
        program = await self._program(caller, detail.execution)
        if program is None:
            raise NotFound(f"The program of execution {execution_id!r} is not kept any more.", code="not_found")
        tools = {used.name for used in program.used}

        def draw() -> str:
            drawn = graph(program.checked)
            return svg(drawn, f"Execution {execution_id}", _states(detail, drawn, tools))

        return await asyncio.to_thread(draw)

    async def _program(self, caller: Caller, execution: Execution) -> Program | None:
        """The program in the arguments of an execution; or of its journal, if the caller may see it still."""
        request = await self.executions.request(execution)
        if request is None:
            return None
        if isinstance(source := request.arguments.get("source"), str):
            return await self.compiler.compile_or_reject(source, caller.principal)
        if (source := await self._began_with(execution.ref)) is None:
            return None
        program = await self.compiler.compile_or_reject(source, caller.principal)
        await readable_source(self.store, caller, f"sha256:{program.structural_hash}")
        return program

    async def _began_with(self, ref: TurnRef) -> str | None:
        """The source that a reference stood for, or that of the execution that was resumed.

        It is the first answer in the journal. The others may be large, so they are not read.
        """
        async with aclosing(read(self.bus, TURN_LOG.name, ref.on(TURN_CONTENT.template), batch=1)) as records:
            async for record in records:
                for event in TurnEvents.model_validate_json(record.data).events:
                    if isinstance(event, Answered) and event.call == START and event.answer is not None:
                        began: str = json.loads(event.answer)
                        resumed = event.basis.startswith("resume ")
                        return Suspension.model_validate_json(began).source if resumed else began
        return None


def _states(detail: ExecutionDetail, drawn: Graph, tools: Iterable[str]) -> dict[str, State]:
    """The state of each call of a tool by its place. Of several tries the last one counts."""
    execution = detail.execution
    over, batch = execution.status != "running", execution.tool == "batch_execute"
    states = dict[str, State]()
    for call in detail.calls:
        states[call.place.partition(".")[2] if batch else call.place] = _state(call, over=over)
    if over and execution.tool == "execute":  # a resumed execution has calls of the one before it
        made = {place.partition(".")[0] for place in states}
        for node in drawn.nodes:
            if node.place is not None and node.label in tools and node.place not in made:
                states[node.place] = "skipped"
    return states


def _state(call: CallMade, *, over: bool) -> State:
    match call.status:
        case "completed":
            return "done"
        case "started" if not over:
            return "running"
        case _:
            return "failed"
