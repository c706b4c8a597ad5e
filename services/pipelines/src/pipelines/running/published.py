"""The agent `pipelines/published`: each of its tools is a stored pipeline, with the rights of whoever calls it."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.errors import NotFound, Rejected
from pallas_cst.faults import Faulty
from pallas_executor.agent_runtime import Completed, Emitter, Failed, Outcome, Turn
from pallas_executor.steps import Steps
from pipelines.programs.compiler import Compiler
from pipelines.running.executing import Engine, ExecutionFailed
from pipelines.running.inputs import read_inputs
from pipelines.running.outcomes import completed, ended, faults_text
from pipelines.storing.scopes import Scope, Scopes

_START = "0"

type FindPublished = Callable[[str], Awaitable[str]]
"""Returns the source of the pipeline that is published as a tool."""


@dataclass(frozen=True)
class PublishedRuntime:
    """Executes published pipelines."""

    engine: Engine
    compiler: Compiler
    find_published: FindPublished
    scopes: Scopes

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        if turn.model is not None:
            return Failed("unknown_model", "A pipeline has no model that another could stand in for.")

        async def run(steps: Steps) -> Completed:
            self.scopes.check(turn.principal, Scope.EXECUTE)
            return await self._run(turn, steps, emit)

        return await ended(turn, emit, run)

    async def read(self, question: AgentRead) -> JsonObject:
        """A published pipeline has nothing to read."""
        raise NotFound(f"agent {question.agent!r} has no prompts and resources")

    async def _run(self, turn: Turn, steps: Steps, emit: Emitter) -> Completed:
        source = await started(steps, f"published {turn.tool}", lambda: self.find_published(turn.tool))
        try:
            program = await self.compiler.compile(source, turn.principal)
        except Faulty as faulty:
            raise ExecutionFailed(f"The pipeline {turn.tool!r} cannot run. {faults_text(source, faulty)}") from None
        inputs = await read_inputs(program.checked, turn.arguments)
        if inputs.missing:
            raise Rejected(f"Input error: missing: {', '.join(inputs.missing)}", code="invalid_input")
        children = self.engine.children(turn, steps, emit)
        ran = await self.engine.run(program, inputs.values, children, self.engine.slots())
        return completed(ran.outputs)


async def started(steps: Steps, basis: str, find: Callable[[], Awaitable[str]]) -> str:
    """What an execution starts from: found once, and taken from the journal by later attempts."""
    if (known := steps.answer(_START, basis)) is not None:
        return json.loads(known)
    found = await find()
    await steps.record(_START, basis, json.dumps(found))
    return found
