"""The agent `pipelines/published`: each of its tools is a stored pipeline, with the rights of whoever calls it."""

from dataclasses import dataclass

from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.errors import NotFound
from pallas_cst.faults import Faulty
from pallas_executor.agent_runtime import Completed, Emitter, Outcome, Turn
from pipelines.programs.compiler import Compiler
from pipelines.programs.program import faults_text
from pipelines.running.attempts import Attempt, attempted, completed, started
from pipelines.running.executing import Engine, ExecutionFailed
from pipelines.running.inputs import read_all_inputs
from pipelines.storing.pipelines import StoredPipelines
from pipelines.storing.scopes import Scopes


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
