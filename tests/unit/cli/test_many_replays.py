"""Replays of many turns: rates, and in whose name a turn is executed again."""

import pytest

from pallas_cli.moments import rate_of
from pallas_cli.operators import OPERATOR
from pallas_cli.refused import Refused
from pallas_contracts.turns import Principal
from pallas_turns.replay import caller_of
from pallas_turns.replays import Pace

ANN = Principal(type="user", id="ann")


@pytest.mark.parametrize(("text", "rate"), [("5/s", 5.0), ("90/m", 1.5), ("2.5", 2.5), ("1800/h", 0.5)])
def test_a_rate_is_a_number_of_turns_in_a_time(text: str, rate: float) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0/s", "-1/s", "5/day", "inf"])
def test_an_invalid_rate_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="is not a rate such as 5/s"):
        rate_of(text)


async def test_a_pace_lets_steps_pass_evenly_and_saves_none_up(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 1))

    monkeypatch.setattr("asyncio.sleep", sleep)
    pace = Pace(2.0)
    for _ in range(4):
        await pace.step()
    assert slept == [0.0, 0.5, 1.0, 1.5]


@pytest.mark.parametrize(
    ("team", "caller", "expected"), [("billing", ANN, ANN), ("pipelines", ANN, OPERATOR), ("billing", None, OPERATOR)]
)
def test_a_replay_has_its_caller_unless_that_would_grant_scopes(
    team: str, caller: Principal | None, expected: Principal
) -> None:
    assert caller_of(team, caller, OPERATOR) == expected
