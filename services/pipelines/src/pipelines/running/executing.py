"""Runs a checked program: its functions here, its tools as turns."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from pallas_calls.service import Calls
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import PallasError
from pallas_cst.evaluate import RunFailed, evaluate
from pallas_cst.faults import Lines
from pallas_cst.types import Type
from pallas_cst.values import Unfit, Value, size_of, to_json
from pallas_cst.work import Memory
from pipelines.modules.catalogue import Catalogue
from pipelines.programs.program import Program
from pipelines.running.attempts import Attempt
from pipelines.running.cache import Cache
from pipelines.running.children import Children
from pipelines.running.large import MOST_BYTES, worked_on
from pipelines.running.nodes import NodeFailed, Nodes
from pipelines.running.pacing import Pacing, PrioritySlots
from pipelines.storing.namespaces import owner_of


class ExecutionFailed(PallasError):
    """The program has failed. The message names the place in its source."""

    default_code = "node_failed"


@dataclass(frozen=True)
class Ran:
    """What a run has computed: outputs as JSON, how many tools were called, and milliseconds."""

    outputs: JsonObject
    called: int
    milliseconds: float


@dataclass(frozen=True)
class Engine:
    """What all executions of this process share."""

    calls: Calls
    catalogue: Catalogue
    cache: Cache
    most_calls: int
    pacing: Pacing = field(default_factory=Pacing)
    memory: Memory = field(default_factory=Memory)

    def children(self, attempt: Attempt, prior: Mapping[str, str] | None = None, *, suspends: bool = False) -> Children:
        """What makes the calls of one attempt. `suspends`: it ends with inputs missing, so its answers are kept."""
        return Children(attempt, self.calls, self.catalogue, prior or {}, suspends)

    def slots(self) -> PrioritySlots:
        """The calls of one execution that run at a time."""
        return PrioritySlots(self.most_calls)

    async def run(
        self,
        program: Program,
        inputs: Mapping[str, Value],
        children: Children,
        slots: PrioritySlots,
        *,
        prefix: str = "",
        missing: Collection[str] = (),
    ) -> Ran:
        """Compute the outputs; those that can be reached without the inputs that are `missing`.

        Raises:
            ExecutionFailed: a call failed.
            Superseded, JournalUnusable: the attempt cannot go on.
        """
        nodes = Nodes(program, children, self.pacing, slots, self.cache, prefix)
        began = time.perf_counter()
        with self.memory.share(owner_of(children.attempt.turn.principal).token) as share:
            try:
                outputs = await evaluate(program.checked, inputs, nodes.call, missing=missing, share=share)
            except (NodeFailed, RunFailed) as error:
                line, column = Lines(program.source).position(error.span.start)
                raise ExecutionFailed(f"Line {line}, column {column}: {error.message}") from None
            kinds = program.checked.outputs
            written = await worked_on(outputs, partial(_written, outputs, kinds), *kinds.values())
        return Ran(written, nodes.called, _milliseconds(began))


def _written(outputs: Mapping[str, Value], kinds: Mapping[str, Type]) -> JsonObject:
    if size_of(dict(outputs), MOST_BYTES) > MOST_BYTES:
        raise ExecutionFailed(f"The outputs are larger than {MOST_BYTES} bytes.")
    try:
        return {name: to_json(value, kinds[name]) for name, value in outputs.items()}
    except Unfit as error:
        raise ExecutionFailed(f"The outputs cannot be written: {error}") from None


def _milliseconds(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
