"""Plans the replay of a turn for the command, which prints why it is refused."""

from pallas_bus.transport.connection import Bus
from pallas_calls.replay_turn import Plan, plan_replay, submit_replay
from pallas_cli.operators import OPERATOR
from pallas_cli.refused import Refused, WrongUsage
from pallas_contracts.errors import Conflict, NotFound, Rejected, Unavailable
from pallas_contracts.turns import TurnRequested

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
