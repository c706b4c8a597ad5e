"""Runs a checked program: its functions here, its tools as turns.

Also gives back executions whose process was lost, and cancels the turns of those that have failed.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial

from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.reads import read, read_all
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import PIPELINES_TEAM, TURN_EVENT, TURN_LOG, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.errors import PallasError
from pallas_contracts.ids import child_id
from pallas_contracts.turns import ToolCompleted, ToolFailed, ToolStarted, TurnEvents, TurnRequested
from pallas_cst.evaluate import RunFailed, evaluate
from pallas_cst.faults import Lines
from pallas_cst.types import Type
from pallas_cst.values import Unfit, Value, size_of, to_json
from pallas_cst.work import Memory
from pallas_turns.calls import Calls
from pallas_turns.cancel import cancel_turn
from pallas_turns.claims import TurnRef
from pallas_turns.liveness import SILENCE, WorkerLiveness, last_claims
from pipelines.modules.catalogue import Catalogue
from pipelines.programs import Program
from pipelines.running.answers import MOST_BYTES, worked_on
from pipelines.running.cache import Cache
from pipelines.running.children import Attempt, Children
from pipelines.running.nodes import NodeFailed, Nodes, Pacing, PrioritySlots
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


_MOST = 500
"""Executions that are looked at; the broker redelivers the others later."""


async def give_back_lost(bus: Bus, liveness: WorkerLiveness) -> None:
    """Watch for a moment who has the executions that are in the queue.

    Raises:
        Unavailable: the broker does not answer.
    """
    subject = TURN_REQUESTED.template.filter(team=PIPELINES_TEAM)
    refs = list[TurnRef]()
    async for record in read(bus, TURN_QUEUE.name, subject):
        with suppress(ValidationError):  # whoever takes it will say so
            refs.append(TurnRef.of(TurnRequested.model_validate_json(record.data)))
    claims = await last_claims(bus, refs[:_MOST])
    with ExitStack() as stack:
        for turn_id, claim in claims.items():
            stack.enter_context(liveness.holding(turn_id))(claim)
        await asyncio.sleep(2 * SILENCE)


async def cancel_children(bus: Bus, ref: TurnRef) -> None:
    """Cancel every child whose start is in the log and whose end is not.

    A start is stored before its child is submitted, and nothing can be stored behind a cancel. So none is missed.

    Raises:
        Unavailable: the broker does not answer.
    """
    open_calls: dict[str, TurnRef] = {}
    for record in await read_all(bus, TURN_LOG.name, ref.on(TURN_EVENT.template)):
        for event in TurnEvents.model_validate_json(record.data).events:
            match event:
                case ToolStarted(call=call, server=server, leaf=False):
                    team, _, agent = server.partition("/")
                    open_calls[call] = TurnRef(team, agent, child_id(ref.turn_id, call))
                case ToolCompleted(call=call) | ToolFailed(call=call):
                    open_calls.pop(call, None)
                case _:
                    pass
    reason = "the pipeline that called it has ended"
    await asyncio.gather(*(cancel_turn(bus, child, reason) for child in open_calls.values()))
