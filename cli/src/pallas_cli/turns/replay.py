"""Executing a turn again as a new one: it is put into the queue, followed, and cancelled when the command is."""

import asyncio
import json
import sys
from contextlib import suppress

import typer

from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.content.claim_checks import offload_request
from pallas_bus.turnlog.feed import Said
from pallas_bus.turnlog.feeds import follow_turns
from pallas_bus.turnlog.queue import submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_cli.refused import Refused
from pallas_cli.turns.answer import said_in, with_content
from pallas_cli.turns.compare import comparison_of, lines_beside
from pallas_cli.turns.listing import find_turn
from pallas_cli.turns.replay_plan import Plan, plan_replay
from pallas_cli.turns.show import document_of
from pallas_cli.turns.tail import claim_text, text_of
from pallas_contracts.catalog import WORKERS
from pallas_contracts.errors import PallasError, Rejected, Unavailable
from pallas_contracts.turns import CancelRequested, Claimed, TextDelta, TurnOutcome, TurnRequested

_READ_AGAIN = 0.05


async def replay_turn(
    bus: Bus,
    turn_id: str,
    *,
    agent: str | None,
    model: str | None,
    compare: bool,
    confirmed: bool,
    as_json: bool,
) -> None:
    """Execute a turn again, with progress on standard error and the answer at the end. The old turn is only read.

    Raises:
        Refused: it cannot be executed again, and why.
        Unconfirmed: tools would be executed again, and nobody has said that they may.
        Exit: with code 1, the new turn did not complete.
    """
    plan = await plan_replay(bus, turn_id, agent=agent, model=model)
    plan.check(confirmed=confirmed)
    await _execute(bus, plan)
    new = await _ended(bus, plan.request.turn_id)
    if as_json:
        document = comparison_of(plan.old, new) if compare else document_of(new, content=True)
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif compare:
        print("\n".join(lines_beside(plan.old, new)))
    else:
        print(said_in(new).text)
    if new.state != "completed":
        raise typer.Exit(1)


async def _execute(bus: Bus, plan: Plan) -> None:
    request = plan.request
    name, clock = f"{request.team}/{request.agent}", asyncio.get_running_loop().time
    began = clock()

    def tell(text: str) -> None:
        print(f"{clock() - began:9.3f} {text}", file=sys.stderr, flush=True)

    async with follow_turns(bus) as feeds:
        await bus.flush()
        feed = feeds.open(TurnRef.of(request))
        position = 0
        try:
            position = await _submit(bus, request)
            tell(f"turn {request.turn_id}: {name} {request.tool} again, as asked in {plan.old.turn_id}")
            if not await _hosted(bus, f"{request.team}.{request.agent}"):
                tell(f"no worker hosts {name} right now: the turn waits until one does")
            async for said in feed:
                if (line := _line_of(said)) is not None:
                    tell(line)
        except asyncio.CancelledError:
            with suppress(PallasError):
                await request_cancel(bus, TurnRef.of(request), "its replay was interrupted")
                await withdraw_turn(bus, request, position)
                tell(f"turn {request.turn_id} cancelled")
            raise


async def _submit(bus: Bus, request: TurnRequested) -> int:
    """Put the turn into its queue, with what is too big for a message beside it; returns its position there."""
    try:
        return (await submit(bus, await offload_request(bus, request))).seq
    except Rejected as error:
        raise Refused(error.message) from error
    except Unavailable as error:
        if error.code == "queue_full":
            raise Refused(f"busy: too many turns of {request.team}/{request.agent} are waiting") from error
        # It may be in there: what was refused must not be executed.
        with suppress(PallasError):
            await request_cancel(bus, TurnRef.of(request), "it could not be put into its queue")
        raise Refused(f"{error.message}; the turn is cancelled") from error


async def _hosted(bus: Bus, key: str) -> bool:
    return any(key in presence.agents for presence in (await kv.snapshot(bus, WORKERS)).values())


def _line_of(said: Said) -> str | None:
    match said:
        case Claimed() | CancelRequested():
            return claim_text(said)
        case TurnOutcome():
            return f"{said.status} ({said.code})" if said.code not in (None, said.status) else said.status
        case TextDelta():
            return None
        case _:
            return text_of(said)


async def _ended(bus: Bus, turn_id: str) -> TurnHistory:
    """The turn as the log has it; a replica of the log may be a moment behind what was heard."""
    while True:
        turn = await find_turn(bus, turn_id)
        if turn.outcome is not None:
            return await with_content(bus, turn)
        await asyncio.sleep(_READ_AGAIN)
