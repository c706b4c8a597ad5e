"""Executes a turn again as a new turn, which is cancelled if the command is interrupted."""

import asyncio
import json
from contextlib import suppress

import typer

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_cli.operators import OPERATOR
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, WrongUsage
from pallas_cli.turns.listing import find_turn
from pallas_cli.turns.show import comparison_of, document_of, lines_side_by_side
from pallas_contracts.catalog import WORKERS
from pallas_contracts.errors import Conflict, NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.turns import CancelRequested, Claimed, TextDelta, TurnOutcome, TurnRequested
from pallas_turns.cancel import withdraw_turn
from pallas_turns.claims import TurnRef, request_cancel
from pallas_turns.feed import FeedItem
from pallas_turns.feeds import follow_turns
from pallas_turns.history.contents import claim_text, content_of, text_of, with_content
from pallas_turns.history.turns import TurnHistory
from pallas_turns.replay import Plan, plan_replay, submit_replay

_WITH_CODE = frozenset({"content_expired", "unknown_model"})
"""Codes that the command prints in front of the sentence."""


class Unconfirmed(WrongUsage):
    """The command needs a confirmation, because it could repeat side effects."""


async def confirmed_plan(bus: Bus, turn_id: str, *, agent: str | None, model: str | None, confirmed: bool) -> Plan:
    """Plan the replay of a turn, with another agent of its team or another model if given.

    Raises:
        Refused: the turn cannot be executed again.
        Unconfirmed: the turn called tools with possible side effects, and `confirmed` is false.
    """
    try:
        plan = await plan_replay(bus, turn_id, agent=agent, model=model, caller=OPERATOR)
    except (Conflict, NotFound, Rejected) as error:
        code = f"{error.code}: " if error.code in _WITH_CODE else ""
        raise Refused(*(f"{code}{line}" for line in error.message.splitlines()), word=error.code) from error
    try:
        plan.check(confirmed=confirmed)
    except Conflict as error:
        raise Unconfirmed(error.message) from error
    return plan


async def submitted(bus: Bus, request: TurnRequested) -> int:
    """Submit the turn; returns its position in the queue.

    Raises:
        Refused: it cannot be submitted.
    """
    try:
        return await submit_replay(bus, request)
    except Unavailable as error:
        raise Refused(f"busy: {error.message}" if error.code == "busy" else error.message) from error
    except Rejected as error:
        raise Refused(error.message) from error


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
    """Execute a turn again, with progress on standard error, and print its answer. The old turn does not change.

    Raises:
        Refused: it cannot be executed again.
        Unconfirmed: the turn called tools with possible side effects, and `confirmed` is false.
        Exit: with code 1, if the new turn did not complete.
    """
    plan = await confirmed_plan(bus, turn_id, agent=agent, model=model, confirmed=confirmed)
    await _execute(bus, plan)
    new = await _ended(bus, plan.request.turn_id)
    if as_json:
        document = comparison_of(plan.old, new) if compare else document_of(new, content=True)
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif compare:
        print_plain("\n".join(lines_side_by_side(plan.old, new)))
    else:
        print_plain(content_of(new).text)
    if new.state != "completed":
        raise typer.Exit(1)


async def _execute(bus: Bus, plan: Plan) -> None:
    request = plan.request
    name, clock = f"{request.team}/{request.agent}", asyncio.get_running_loop().time
    began = clock()

    def report(text: str) -> None:
        print_plain(f"{clock() - began:9.3f} {text}", err=True)

    async with follow_turns(bus) as feeds:
        await bus.flush()
        feed = feeds.open(TurnRef.of(request))
        position = 0
        try:
            position = await submitted(bus, request)
            report(f"turn {request.turn_id}: {name} {request.tool}, a replay of {plan.old.turn_id}")
            if not await _hosted(bus, f"{request.team}.{request.agent}"):
                report(f"no worker hosts {name}: the turn waits for one")
            async for item in feed:
                if (line := _line_of(item)) is not None:
                    report(line)
        except asyncio.CancelledError:
            with suppress(PallasError):
                await request_cancel(bus, TurnRef.of(request), "its replay was interrupted", request)
                await withdraw_turn(bus, request, position)
                report(f"turn {request.turn_id} cancelled")
            raise


async def _hosted(bus: Bus, key: str) -> bool:
    return any(key in presence.agents for presence in (await kv.snapshot(bus, WORKERS)).values())


def _line_of(item: FeedItem) -> str | None:
    match item:
        case Claimed() | CancelRequested():
            return claim_text(item)
        case TurnOutcome():
            return f"{item.status} ({item.code})" if item.code not in (None, item.status) else item.status
        case TextDelta():
            return None
        case _:
            return text_of(item)


async def _ended(bus: Bus, turn_id: str) -> TurnHistory:
    """The ended turn from the log. A replica of the log may lag behind the feed."""
    while True:
        turn = await find_turn(bus, turn_id)
        if turn.outcome is not None:
            return await with_content(bus, turn)
        await asyncio.sleep(_READ_AGAIN)
