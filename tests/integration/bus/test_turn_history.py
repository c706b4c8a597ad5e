"""The history of turns, read from a real log."""

from tests.builders import turn_outcome, turn_requested
from tests.integration.bus.conftest import Declaring

from pallas_contracts.keyed import LogKey
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed
from pallas_turns.claims import TurnRef, claim
from pallas_turns.history.turns import read_turns
from pallas_turns.queue import submit
from pallas_turns.write import TurnWriter

KEY = LogKey("k" * 32)


async def test_waiting_and_ended_turns_of_a_conversation_are_found_by_its_hash(turns: Declaring, team: str) -> None:
    bus, mine, other = await turns(), KEY.conversation(team), KEY.conversation(f"{team} other")
    waiting, ended_turn, foreign = (
        turn_requested(team).model_copy(update={"conversation": each}) for each in (mine, mine, other)
    )
    await submit(bus, waiting)
    for request in (ended_turn, foreign):
        claimed = Claimed(attempt=1, worker="w1", conversation=request.conversation, at=utc_now())
        fence = await claim(bus, TurnRef.of(request), claimed, after=0)
        await TurnWriter(bus, TurnRef.of(request), 1, fence).conclude(turn_outcome(request))
    found = {turn.turn_id: turn.state for turn in await read_turns(bus) if turn.conversation == mine}
    assert found == {waiting.turn_id: "waiting", ended_turn.turn_id: "completed"}
