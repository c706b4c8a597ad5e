"""Replays of many turns: rates, in whose name a turn is executed again, and the keys of what is sealed."""

from pathlib import Path

import pytest

from pallas_bus.turnlog.content.sealed import open_key, seal_key, seal_key_of
from pallas_calls.pace import Pace
from pallas_calls.replay_choice import caller_of
from pallas_cli.keep_key import find_keep_key, keep_key_if_any, kept_seal_key
from pallas_cli.moments import rate_of
from pallas_cli.operators import OPERATOR
from pallas_cli.refused import Refused
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Principal

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


def test_the_key_of_the_data_folder_is_made_once_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALLAS_KEEP_KEY", raising=False)
    assert keep_key_if_any(tmp_path) is None
    with pytest.raises(Refused, match="set PALLAS_KEEP_KEY"):
        find_keep_key(tmp_path)
    public = kept_seal_key(tmp_path)
    assert kept_seal_key(tmp_path) == public == seal_key_of(find_keep_key(tmp_path))
    assert (tmp_path / "secrets" / "keep-key").stat().st_mode & 0o777 == 0o600


def test_an_invalid_key_is_refused_without_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_KEEP_KEY", "not a key")
    with pytest.raises(Refused, match="PALLAS_KEEP_KEY: must be a private key") as refused:
        keep_key_if_any(tmp_path)
    assert "not a key" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "x", "a" * 44, "\u00e9", "F649p5+lEi23bMakgY32rWWbvYUR6xg/ny7Dvdwb"])
def test_only_32_bytes_in_base64_are_a_key(text: str) -> None:
    for parse in (open_key, seal_key):
        with pytest.raises(Rejected, match="32 bytes in base64"):
            parse(text)
