"""`pallas keys` against a running service."""

import pytest
from tests.integration.pallas_command import Pallas
from tests.integration.team_lifecycle.lab import Lifecycle


@pytest.fixture
def lifecycle(own_lifecycle: Lifecycle) -> Lifecycle:
    """A service of this test alone: it has one key."""
    return own_lifecycle


async def states(pallas: Pallas) -> dict[str, str]:
    """The state of each key in `keys list`, by kid."""
    return {row[0]: row[3] for row in (await pallas.done("keys", "list")).rows}


async def test_only_the_secret_of_a_per_turn_key_is_shown(pallas: Pallas) -> None:
    turn = await pallas.done("keys", "create", "turn")
    [first, added] = (await pallas.done("keys", "list", "--json")).json
    assert len(bytes.fromhex(turn.out.strip())) == 32
    assert turn.err == f"This is the secret of key {added['kid']}, for Daedalus. It cannot be shown again.\n"
    assert (added["purpose"], added["algorithm"], first["purpose"]) == ("turn", "HS256", "team")
    assert "secret" not in added

    team = await pallas.done("keys", "create", "team")
    kid = (await pallas.done("keys", "list", "--json")).json[-1]["kid"]
    assert (team.out, team.err) == (f"Key {kid} was created; `pallas keys make-current {kid}` makes it sign.\n", "")
    assert (await pallas.done("keys", "create", "team", "--algorithm", "EdDSA", "--json")).json["secret"] is None


async def test_a_key_signs_once_current_and_stays_valid_until_retired(pallas: Pallas) -> None:
    [first] = await states(pallas)
    second = (await pallas.done("keys", "create", "team", "--json")).json["kid"]
    result = await pallas.done("keys", "make-current", second)
    assert result.out == f"Key {second} now signs team JWTs.\n"
    assert await states(pallas) == {first: "valid", second: "current"}
    result = await pallas.done("keys", "retire", first, "--yes")
    assert result.out == f"Key {first} is retired: every JWT signed with it is now invalid.\n"
    third = (await pallas.done("keys", "create", "team", "--current", "--json")).json["kid"]
    assert await states(pallas) == {first: "retired", second: "valid", third: "current"}


async def test_the_current_key_cannot_be_retired_and_a_per_turn_key_cannot_become_current(pallas: Pallas) -> None:
    [first] = await states(pallas)
    turn = (await pallas.done("keys", "create", "turn", "--json")).json["kid"]
    assert await pallas.refused("keys", "retire", first, "--yes") == [
        f"pallas: key '{first}' is the current one; make another one current first"
    ]
    elsewhere = ["pallas: a key for per-turn tokens cannot be current: Daedalus signs with it"]
    assert await pallas.refused("keys", "make-current", turn) == elsewhere
    assert await pallas.refused("keys", "create", "turn", "--current") == elsewhere
    assert await pallas.refused("keys", "make-current", "team-0") == ["pallas: there is no key 'team-0'"]


async def test_reseal_encrypts_all_keys_with_the_first_fernet_key(pallas: Pallas) -> None:
    result = await pallas.done("keys", "reseal")
    assert result.out == "All keys are encrypted with the first of PALLAS_FERNET_KEYS.\n"
