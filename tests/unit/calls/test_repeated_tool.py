"""Which tools of a turn a replay would call again, though they may have effects."""

import pytest
from tests.builders import agent_definition

from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, ToolStarted
from pallas_turns.history.turns import AttemptHistory, TurnHistory
from pallas_turns.replay import repeated_tool


@pytest.mark.parametrize(
    ("team", "leaf", "safe", "retry", "repeated"),
    [
        ("demo", True, False, "unsafe", True),
        ("demo", True, True, "unsafe", False),
        ("demo", False, False, "unsafe", False),  # its own tools are in the same journal
        ("demo", True, False, "safe", False),
        (PIPELINES_TEAM, False, False, "safe", True),  # a call of a pipeline is a turn of its own
        (PIPELINES_TEAM, False, True, "safe", False),
    ],
)
def test_a_tool_with_effects_is_repeated_by_a_replay(
    team: str, leaf: bool, safe: bool, retry: str, repeated: bool
) -> None:
    claim = Claimed(attempt=1, worker="w", at=utc_now())
    started = ToolStarted(call="1", server="s", tool="t", leaf=leaf, safe=safe, seq=1)
    turn = TurnHistory(team, CONSTELLATION, "t", attempts={1: AttemptHistory(claim, {1: started})})
    assert (repeated_tool(turn, agent_definition(team, retry=retry)) == started) is repeated
