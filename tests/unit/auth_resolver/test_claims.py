"""The claims of a JWT: when they are checked again, and which look-ups follow from them."""

import time

import pytest
from tests.integration.auth_resolver.bearers import TEAM_KEY, team_claims

from auth_resolver.claims import LEEWAY, check_claims, take_apart
from pallas_contracts.auth import LookupKey
from pallas_contracts.errors import Denied

TEAM = "abcdef01-2345-6789-abcd-ef0123456789"


def test_an_accepted_jwt_is_refused_once_it_has_expired() -> None:
    now = time.time()
    parts = take_apart(TEAM_KEY.sign(team_claims(exp=int(now) + 60)))
    assert parts is not None
    assert check_claims(parts, now) == check_claims(parts, now + 60 + LEEWAY - 1)
    with pytest.raises(Denied) as refused:
        check_claims(parts, now + 61 + LEEWAY)
    assert refused.value.code == "expired"


def test_a_refused_jwt_is_checked_again() -> None:
    now = time.time()
    parts = take_apart(TEAM_KEY.sign(team_claims(nbf=int(now) + 300)))
    assert parts is not None
    with pytest.raises(Denied):
        check_claims(parts, now)
    assert check_claims(parts, now + 300).jti


@pytest.mark.parametrize("subject", [f"team:{TEAM}", f"team:{TEAM.upper()}"])
def test_a_team_is_looked_up_by_its_id_in_lower_case(subject: str) -> None:
    parts = take_apart(TEAM_KEY.sign(team_claims(sub=subject)))
    assert parts is not None
    assert parts.rows == (LookupKey(kind="key", id=TEAM_KEY.kid), LookupKey(kind="team", id=TEAM))


@pytest.mark.parametrize("subject", ["team:", "team:x", f"team:{{{TEAM}}}", f"team:{TEAM.replace('-', '')}", TEAM, 1])
def test_a_subject_that_is_no_team_id_is_not_looked_up(subject: object) -> None:
    parts = take_apart(TEAM_KEY.sign(team_claims(sub=subject)))
    assert parts is not None
    assert [row.kind for row in parts.rows] == ["key"]
