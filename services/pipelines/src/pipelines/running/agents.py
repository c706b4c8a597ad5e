"""The executions of `pipelines/constellation` (`execute`, `resume`, `batch_execute`) and of published pipelines.

What an execution starts from is in its journal at place 0: the source behind a reference, or the suspended execution.
So all attempts run the same program.
"""

import asyncio
import time
from dataclasses import dataclass
from functools import partial

from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import Suspension
from pallas_contracts.turns import Progress
from pallas_cst.faults import Faulty
from pallas_cst.reach import reach
from pallas_cst.values import size_of
from pallas_turns.events import Emitter
from pallas_turns.runtime import AgentRuntime, Completed, NeedsInput, Outcome, Turn
from pipelines.programs import Compiler, Program, faults_text
from pipelines.running.answers import MOST_BYTES, worked_on
from pipelines.running.children import Attempt, attempted, completed, started
from pipelines.running.executing import Engine, ExecutionFailed, Ran
from pipelines.running.inputs import Inputs, answered, ask_for, plan_of, read_all_inputs, read_inputs
from pipelines.running.nodes import PrioritySlots
from pipelines.running.suspending import Suspensions
from pipelines.storing.namespaces import Caller, owner_of
from pipelines.storing.pipelines import StoredPipelines
from pipelines.storing.scopes import Scopes

_AT_ONCE = 8
"""Items of a batch that run at a time, unless the caller says how many."""


@dataclass(frozen=True)
class ConstellationRuntime:
    """Executes pipelines. All other tools, and reads, are those of `functions`."""

    functions: AgentRuntime
    engine: Engine
    compiler: Compiler
    suspensions: Suspensions
    store: StoredPipelines
    scopes: Scopes

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        match turn.tool:
            case "execute":
                run = self._execute
            case "resume":
                run = self._resume
            case "batch_execute":
                run = self._batch
            case _:
                return await self.functions.run_turn(turn, emit)
        return await attempted(turn, emit, self.scopes, run)

    async def read(self, question: AgentRead) -> JsonObject:
        """Answer a prompt, resource or completion request (see `AgentRuntime`)."""
        return await self.functions.read(question)

    async def _execute(self, attempt: Attempt) -> Outcome:
        turn = attempt.turn
        program, milliseconds = await self._compiled(attempt)
        if turn.arguments.get("dry_run"):
            return completed({"success": True, "status": "planned", **plan_of(program, turn.principal)})
        given: JsonObject = {**turn.arguments["inputs"]}
        inputs = await read_inputs(program.checked, given)
        if inputs.missing and turn.arguments.get("on_missing") == "ask":
            more = answered(inputs.missing, turn.input_responses)
            if more is None and turn.input_responses is None and "elicitation" in turn.client.capabilities:
                return NeedsInput(ask_for(inputs.missing))
            given.update(more or {})
            inputs = await read_inputs(program.checked, given)
        began = Suspension(
            turn_id=turn.turn_id,
            owner=owner_of(turn.principal).token,
            source=program.source,
            structural_hash=program.structural_hash,
            inputs=given,
            missing={},
            pending=(),
            created_at=utc_now(),
        )
        return await self._run(attempt, program, inputs, began, milliseconds)

    async def _resume(self, attempt: Attempt) -> Outcome:
        turn = attempt.turn
        execution = str(turn.arguments["executionId"])

        async def take() -> str:
            return (await self.suspensions.take(execution, turn.principal, turn.turn_id)).model_dump_json()

        before = Suspension.model_validate_json(await started(attempt.steps, f"resume {execution}", take))
        program, milliseconds = await self._compile(turn, before.source)
        more: JsonObject = turn.arguments.get("additionalInputs") or {}
        if twice := more.keys() & before.inputs.keys():  # answers that were made with it are kept
            raise Rejected(f"Input error: {min(twice)} was given before", code="invalid_input")
        given = before.inputs | more
        inputs = await read_inputs(program.checked, given)
        began = before.model_copy(update={"inputs": given, "resumptions": before.resumptions + 1})
        return await self._run(attempt, program, inputs, began, milliseconds)

    async def _run(
        self, attempt: Attempt, program: Program, inputs: Inputs, began: Suspension, compiled: float
    ) -> Outcome:
        """Run to the end, or as far as the inputs reach; `began` is the execution as it would be suspended."""
        children = self.engine.children(attempt, began.answers, suspends=bool(inputs.missing))
        ran = await self.engine.run(program, inputs.values, children, self.engine.slots(), missing=inputs.missing)
        answer: JsonObject = {
            "success": True,
            "status": "suspended" if inputs.missing else "completed",
            "outputs": ran.outputs,
            "executionId": began.turn_id,
            "structuralHash": f"sha256:{program.structural_hash}",
            "resumptionCount": began.resumptions,
            "metrics": _metrics(compiled, ran),
        }
        if not inputs.missing:
            if began.resumptions:
                done = partial(self.suspensions.done, began)
                await retry_while_unavailable(done, "remove the execution that waited", deadline=None)
            return completed(answer)
        missing = {name: str(kind) for name, kind in inputs.missing.items()}
        pending = reach(program.checked, inputs.missing).pending
        update = {
            "answers": {**began.answers, **children.answers},
            "missing": missing,
            "pending": tuple(pending),
            "resumed_by": None,
        }
        suspended = began.model_copy(update=update)
        suspend = partial(self.suspensions.suspend, suspended)
        await retry_while_unavailable(suspend, "keep the suspended execution", deadline=None)
        return completed(answer | {"missingInputs": missing, "pendingOutputs": list(pending)})

    async def _batch(self, attempt: Attempt) -> Outcome:
        program, milliseconds = await self._compiled(attempt)
        items: list[JsonObject] = attempt.turn.arguments["inputs"]
        at_once = asyncio.Semaphore(attempt.turn.arguments.get("concurrency") or _AT_ONCE)
        slots, ended_items, kept = self.engine.slots(), 0, 0

        async def item(number: int, given: JsonObject) -> JsonObject:
            nonlocal ended_items, kept
            async with at_once:
                try:
                    found = await self._item(attempt, program, number, given, slots)
                except (ExecutionFailed, Rejected) as error:
                    found = {"success": False, "error": error.message}
            kept += await worked_on(found, partial(size_of, found))
            if kept > MOST_BYTES:
                found = {"success": False, "error": f"the results of the batch are larger than {MOST_BYTES} bytes"}
            ended_items += 1
            attempt.emit.emit(Progress(progress=ended_items, total=len(items), message=f"item {number} of the batch"))
            return {"index": number - 1, **found}

        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(item(number, given)) for number, given in enumerate(items, 1)]
        results = [each.result() for each in running]
        took = round((time.perf_counter() - began) * 1000, 3)
        called = sum(result.pop("modulesExecuted", 0) for result in results)
        metrics = {"compileTimeMs": milliseconds, "executeTimeMs": took, "modulesExecuted": called}
        failed = sum(not result["success"] for result in results)
        return completed(
            {
                "success": not failed,
                "executionId": attempt.turn.turn_id,
                "results": results,
                "failed": failed,
                "metrics": metrics,
            }
        )

    async def _item(
        self, attempt: Attempt, program: Program, number: int, given: JsonObject, slots: PrioritySlots
    ) -> JsonObject:
        inputs = await read_all_inputs(program.checked, given)
        children = self.engine.children(attempt)
        ran = await self.engine.run(program, inputs, children, slots, prefix=f"{number}.")
        return {"success": True, "outputs": ran.outputs, "modulesExecuted": ran.called}

    async def _compiled(self, attempt: Attempt) -> tuple[Program, float]:
        """The program in the arguments, and the milliseconds it took to compile it."""
        turn = attempt.turn
        source, ref = turn.arguments.get("source"), turn.arguments.get("ref")
        if (source is None) == (ref is None):
            raise Rejected("give either source or ref", code="invalid_arguments")

        async def find() -> str:
            caller = Caller.of(self.scopes, turn.principal, turn.correlation)
            return (await self.store.get(caller, str(ref))).image.source

        if ref is not None:
            source = await started(attempt.steps, f"ref {ref}", find)
        return await self._compile(turn, str(source))

    async def _compile(self, turn: Turn, source: str) -> tuple[Program, float]:
        began = time.perf_counter()
        program = await self.compiler.compile_or_reject(source, turn.principal)
        return program, round((time.perf_counter() - began) * 1000, 3)


def _metrics(compiled: float, ran: Ran) -> JsonObject:
    return {"compileTimeMs": compiled, "executeTimeMs": ran.milliseconds, "modulesExecuted": ran.called}


@dataclass(frozen=True)
class PublishedRuntime:
    """Executes published pipelines."""

    engine: Engine
    compiler: Compiler
    store: StoredPipelines
    scopes: Scopes

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        return await attempted(turn, emit, self.scopes, self._run)

    async def read(self, question: AgentRead) -> JsonObject:
        """A published pipeline has nothing to read."""
        raise NotFound(f"agent {question.agent!r} has no prompts and resources")

    async def _run(self, attempt: Attempt) -> Completed:
        turn = attempt.turn

        async def find() -> str:
            return (await self.store.by_tool(turn.tool)).image.source

        source = await started(attempt.steps, f"published {turn.tool}", find)
        try:
            program = await self.compiler.compile(source, turn.principal)
        except Faulty as faulty:
            raise ExecutionFailed(f"The pipeline {turn.tool!r} cannot run. {faults_text(source, faulty)}") from None
        inputs = await read_all_inputs(program.checked, turn.arguments)
        ran = await self.engine.run(program, inputs, self.engine.children(attempt), self.engine.slots())
        return completed(ran.outputs)
