"""Take a delivered turn through its life here: claim, run, conclude, settle.

Nothing but the end of this function settles a delivery. When the worker dies in it, the broker delivers the turn again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from agent_worker.handlers.claim_turn import Conclude, Over, Run, claim_turn
from agent_worker.handlers.conclude_turn import conclude_turn
from agent_worker.handlers.run_turn import run_turn
from agent_worker.ports import HostedAgent, Outcome
from pallas_bus.connection import Bus
from pallas_bus.turn_queue import ACK_WAIT, Delivery
from pallas_bus.turn_writer import Address, TurnWriter
from pallas_contracts.errors import Conflict, PallasError
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, TurnClaim, TurnRequested
from pallas_runtime.logs import log_context

log = logging.getLogger(__name__)

_BEAT = ACK_WAIT / 5


@dataclass(slots=True)
class RunningTurn:
    """An attempt that runs here. `cancelled` and `superseded` say why its task was cancelled."""

    fence: int
    task: asyncio.Task[Outcome]
    cancelled: bool = False
    superseded: bool = False


@dataclass
class Running:
    """The attempts that run in this worker, by turn."""

    turns: dict[str, RunningTurn] = field(default_factory=dict[str, RunningTurn])

    def heard(self, said: TurnClaim, seq: int) -> None:
        """Somebody claimed or cancelled a turn: if it runs here and this is news, stop it."""
        running = self.turns.get(said.turn_id)
        if running is None or seq <= running.fence:
            return
        if isinstance(said.claim, CancelRequested):
            running.cancelled = True
        else:
            running.superseded = True
        running.task.cancel()


@dataclass(frozen=True)
class TakeTurn:
    """What is needed to take turns; `host` finds the hosted agent by `{team}.{agent}`."""

    bus: Bus
    worker: str
    content_seconds: float
    host: Callable[[str], HostedAgent | None]
    running: Running

    async def take_turn(self, key: str, delivery: Delivery) -> None:
        """Execute the delivered turn, or find that there is nothing to execute, and settle the delivery."""
        try:
            request = TurnRequested.model_validate_json(delivery.data)
        except ValidationError as error:
            log.error("undecodable turn", extra={"agent": key, "faults": error.error_count()})
            await delivery.reject()
            return
        with log_context(
            team=request.team, agent=request.agent, turn=request.turn_id, conversation=request.correlation
        ):
            hosted = self.host(key)
            if hosted is None or request.turn_id in self.running.turns:
                await delivery.give_back(1.0) if hosted is None else None
                return
            try:
                async with _beating(delivery):
                    done = await self._attempt(hosted, request)
            except asyncio.CancelledError:
                with suppress(PallasError):
                    await delivery.give_back()
                raise
            except PallasError as error:
                log.warning("cannot take the turn now", extra={"reason": error.message})
                await delivery.give_back(1.0)
            else:
                if done:
                    await delivery.ack()

    async def _attempt(self, hosted: HostedAgent, request: TurnRequested) -> bool:
        """Claim, run and conclude. False means somebody else has the turn now."""
        address = Address.of(request)
        started_at = utc_now()
        match await claim_turn(self.bus, address, self.worker, hosted.definition):
            case Over():
                return True
            case Conclude(attempt, fence, why):
                await conclude_turn(self._writer(hosted, address, attempt, fence), request, why, started_at)
                return True
            case Run(attempt, fence):
                log.info("started", extra={"attempt": attempt, "tool": request.tool})
                writer = self._writer(hosted, address, attempt, fence)
                try:
                    outcome = await self._run(hosted, request, writer)
                except Conflict:
                    log.warning("superseded", extra={"attempt": attempt})
                    return False
                await conclude_turn(writer, request, outcome, started_at)
                return True

    async def _run(self, hosted: HostedAgent, request: TurnRequested, writer: TurnWriter) -> Outcome | None:
        """Run the attempt so that a cancel or a newer claim stops it; None means cancelled.

        Raises:
            Conflict: a newer attempt has taken the turn.
        """
        running = RunningTurn(writer.fence, asyncio.create_task(run_turn(hosted, request, writer)))
        self.running.turns[request.turn_id] = running
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            if running.cancelled:
                return None
            if running.superseded:
                raise Conflict("a newer attempt has the turn", code="superseded") from None
            running.task.cancel()
            await asyncio.wait({running.task})
            raise
        except Conflict:
            if running.cancelled:
                return None
            raise
        finally:
            self.running.turns.pop(request.turn_id, None)

    def _writer(self, hosted: HostedAgent, address: Address, attempt: int, fence: int) -> TurnWriter:
        kept = self.content_seconds + hosted.definition.limits.turn_timeout
        return TurnWriter(self.bus, address, attempt, fence, content_ttl=kept)


@asynccontextmanager
async def _beating(delivery: Delivery) -> AsyncGenerator[None]:
    """Tell the broker every few seconds that the turn is still being worked on."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(_BEAT)
            with suppress(PallasError):
                await delivery.working()

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
