"""Attempts that run in this process, and the claims and cancels that stop them."""

import asyncio

import pytest

from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, TurnClaim
from pallas_turns.claims import TurnRef
from pallas_turns.runtime import Outcome
from pallas_turns.settle import Running, RunningTurn

TURN = new_turn_id()


def claim_message(claim: Claimed | CancelRequested, turn: str = TURN) -> TurnClaim:
    return TurnClaim(turn_id=turn, team="demo", agent="harper", claim=claim)


CANCEL = CancelRequested(reason="enough", at=utc_now())
NEWER = Claimed(attempt=2, worker="w2", at=utc_now())


async def running() -> tuple[Running, RunningTurn]:
    """An attempt that runs for ever, claimed at position 10."""

    async def for_ever() -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    turn = RunningTurn(TurnRef("demo", "harper", TURN), 10, asyncio.create_task(for_ever()))
    return Running({TURN: turn}), turn


@pytest.mark.parametrize("claim", [CANCEL, NEWER], ids=["cancel", "newer claim"])
async def test_a_cancel_or_a_newer_claim_stops_an_attempt(claim: Claimed | CancelRequested) -> None:
    known, turn = await running()
    known.on_claim(claim_message(claim), 11)
    await asyncio.wait({turn.task})
    assert turn.task.cancelled()


@pytest.mark.parametrize("claim", [CANCEL, NEWER], ids=["cancel", "newer claim"])
async def test_a_cancel_or_a_newer_claim_received_before_an_attempt_begins_stops_it(
    claim: Claimed | CancelRequested,
) -> None:
    _, turn = await running()
    known = Running()
    with known.taking(TURN):
        known.on_claim(claim_message(claim), 11)
        known.on_claim(claim_message(Claimed(attempt=1, worker="w1", at=utc_now())), 10)
        known.begin(turn)
        await asyncio.wait({turn.task})
    assert turn.task.cancelled()
    assert not known.has(TURN)


async def test_an_attempt_is_not_stopped_by_its_own_claim_received_before_it_begins() -> None:
    _, turn = await running()
    known = Running()
    with known.taking(TURN):
        known.on_claim(claim_message(Claimed(attempt=1, worker="w1", at=utc_now())), 10)
        known.begin(turn)
        assert not turn.stopped
        known.on_claim(claim_message(CANCEL), 11)
        assert turn.stopped
    await asyncio.wait({turn.task})


async def test_a_cancel_in_a_log_that_was_made_again_stops_an_attempt() -> None:
    known, turn = await running()
    known.on_claim(claim_message(CANCEL), 1)
    await asyncio.wait({turn.task})
    assert turn.task.cancelled()


@pytest.mark.parametrize("position", [9, 10])
async def test_an_attempt_is_not_stopped_by_older_claims_or_those_of_other_turns(position: int) -> None:
    known, turn = await running()
    known.on_claim(claim_message(Claimed(attempt=1, worker="w1", at=utc_now())), position)
    known.on_claim(claim_message(CANCEL, new_turn_id()), 11)
    assert not turn.task.cancelling()
    turn.task.cancel()
    await asyncio.wait({turn.task})
