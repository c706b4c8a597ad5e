"""Every row of the contract's table of failures (section 6.4), and the order in which faults are checked."""

import itertools
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.integration.auth_resolver.bearers import (
    BOTH_KEY,
    DELETED,
    ED_KEY,
    EMPTY,
    LIBRARIES,
    NOBODY,
    STRANGE_KEY,
    TEAM,
    TEAM_KEY,
    TURN_KEY,
    Claims,
    opaque,
    team_claims,
    turn_claims,
    without,
)
from tests.integration.auth_resolver.lab import Replica, Truth, resolved
from tests.requirements import requirement

from pallas_bus.connection import Bus
from pallas_contracts.errors import Denied
from pallas_contracts.message import utc_now

INVALID, EXPIRED, FOREIGN = "Invalid MCP token.", "Token has expired.", "Invalid token issuer."
DEACTIVATED, DISABLED = "Token has been deactivated.", "User account is disabled."

USABLE = opaque("usable")
DISABLED_USER = opaque("of a disabled user", user_active=False)
EXPIRED_TOKEN = opaque("expired", expires_at=utc_now() - timedelta(seconds=1))
REVOKED_TOKEN = opaque("revoked", revoked=True)
EMPTY_TOKEN = opaque("allowed nothing", libraries=())
UNKNOWN_TOKEN = opaque("unknown")


def ago(seconds: float) -> int:
    return int(time.time() - seconds)


def with_wrong_signature(bearer: str) -> str:
    """A JWT with another letter in its signature."""
    return f"{bearer[:-2]}{'A' if bearer[-2] != 'A' else 'B'}{bearer[-1]}"


TABLE: dict[str, tuple[Callable[[], str], str, str]] = {
    "signature invalid": (lambda: with_wrong_signature(TEAM_KEY.sign(team_claims())), "invalid_signature", INVALID),
    "signature of another key": (
        lambda: STRANGE_KEY.sign(team_claims(), kid=TEAM_KEY.kid),
        "invalid_signature",
        INVALID,
    ),
    "exp past by more than the leeway": (lambda: TEAM_KEY.sign(team_claims(exp=ago(32))), "expired", EXPIRED),
    "per-turn, exp past": (lambda: TURN_KEY.sign(turn_claims(iat=ago(632), exp=ago(32))), "expired", EXPIRED),
    "iss of nobody": (lambda: TEAM_KEY.sign(team_claims(iss="https://example.com")), "invalid_issuer", FOREIGN),
    "iss in capitals": (lambda: TURN_KEY.sign(turn_claims(iss="Daedalus")), "invalid_issuer", FOREIGN),
    "team not found": (lambda: TEAM_KEY.sign(team_claims(NOBODY)), "team_not_found", INVALID),
    "team not active": (lambda: TEAM_KEY.sign(team_claims(DELETED)), "team_inactive", DEACTIVATED),
    "team not active, jti stale": (
        lambda: TEAM_KEY.sign(team_claims(DELETED, jti="another")),
        "team_inactive",
        DEACTIVATED,
    ),
    "jti stale": (lambda: TEAM_KEY.sign(team_claims(jti="another")), "stale_jti", INVALID),
    "opaque not found": (lambda: UNKNOWN_TOKEN.text, "token_not_found", INVALID),
    "opaque with a typing error": (lambda: USABLE.text[:-1] + "~", "token_not_found", INVALID),
    "opaque of an inactive user": (lambda: DISABLED_USER.text, "user_disabled", DISABLED),
    "opaque expired": (lambda: EXPIRED_TOKEN.text, "expired", EXPIRED),
    "opaque revoked": (lambda: REVOKED_TOKEN.text, "token_revoked", DEACTIVATED),
    "no bearer": (lambda: "", "missing", "Authentication required."),
}


@pytest.fixture(autouse=True)
def known(truth: Truth) -> None:
    """Opaque tokens that exist."""
    truth.know(USABLE, DISABLED_USER, EXPIRED_TOKEN, REVOKED_TOKEN, EMPTY_TOKEN)


@requirement("A-6.4.1", "A-6.4.2", "A-6.4.3", "A-6.4.4", "A-6.4.5", "A-6.4.6", "A-6.4.7", "A-6.4.8")
@requirement("A-6.1.1", "A-6.3.1", "A-13.4.1", "A-14.1.3")
@pytest.mark.parametrize("row", TABLE)
async def test_a_failure_has_the_message_of_the_contract_and_is_counted(
    resolver: Replica, gateway: Bus, row: str
) -> None:
    bearer, reason, message = TABLE[row]
    for times in (1, 2):  # from team-lifecycle, then from Redis
        with pytest.raises(Denied) as refused:
            await resolved(gateway, bearer())
        assert (refused.value.code, refused.value.message) == (reason, message)
        assert resolver.failures() == {reason: times}


@requirement("A-3.2.1", "A-5.3.1", "A-14.1.1", "A-6.1.2", "A-6.2.1", "A-5.1.1", "A-11.2.1", "K-shape-4", "K-pkg-3")
async def test_all_three_kinds_of_bearer_resolve(resolver: Replica, gateway: Bus) -> None:
    answers = [
        await resolved(gateway, bearer)
        for bearer in (USABLE.text, TURN_KEY.sign(turn_claims()), TEAM_KEY.sign(team_claims()))
    ]
    assert [(it.principal.type, it.principal.id, it.principal.name, it.libraries) for it in answers] == [
        ("token", "id of usable", "usable", LIBRARIES),
        ("turn", "daedalus-chat", "ws_abc", ("lib_xxx", "lib_yyy")),
        ("team", TEAM, "Kottos", LIBRARIES),
    ]
    assert resolver.failures() == {}


async def test_a_team_jwt_by_eddsa_resolves(resolver: Replica, gateway: Bus) -> None:
    assert (await resolved(gateway, ED_KEY.sign(team_claims()))).principal.id == TEAM
    assert resolver.failures() == {}


@requirement("A-6.4.9", "A-3.3.2", "A-6.3.2", "A-4.1.7", "A-14.1.5")
@pytest.mark.parametrize(
    "bearer",
    [
        pytest.param(lambda: TEAM_KEY.sign(team_claims(EMPTY)), id="team"),
        pytest.param(lambda: TURN_KEY.sign(turn_claims(libs=[])), id="turn"),
        pytest.param(lambda: EMPTY_TOKEN.text, id="token"),
    ],
)
async def test_a_bearer_without_libraries_is_accepted(
    resolver: Replica, gateway: Bus, bearer: Callable[[], str]
) -> None:
    assert (await resolved(gateway, bearer())).libraries == ()
    assert resolver.failures() == {}


async def test_clocks_may_differ_by_the_configured_leeway(resolver: Replica, gateway: Bus) -> None:
    assert (await resolved(gateway, TEAM_KEY.sign(team_claims(exp=ago(25))))).principal.id == TEAM
    assert (await resolved(gateway, TEAM_KEY.sign(team_claims(iat=ago(-25))))).principal.id == TEAM
    assert resolver.failures() == {}


@requirement("A-5.1.2")
@pytest.mark.parametrize("audience", ["somebody else", ["a", "b"], None, 7])
async def test_an_audience_is_not_enforced(resolver: Replica, gateway: Bus, audience: object) -> None:
    for claims in (team_claims(aud=audience), without(team_claims(), "aud")):
        assert (await resolved(gateway, TEAM_KEY.sign(claims))).principal.id == TEAM
    assert (await resolved(gateway, TURN_KEY.sign(turn_claims(aud=audience)))).principal.type == "turn"
    assert resolver.failures() == {}


FAULTS: list[tuple[str, str, Callable[[Claims], Claims]]] = [
    ("exp", "expired", lambda claims: claims | {"exp": ago(60)}),
    ("iss", "invalid_issuer", lambda claims: claims | {"iss": "nobody"}),
    ("claims", "malformed", lambda claims: without(claims, "iat")),
    ("typ", "malformed", lambda claims: without(claims, "typ")),
    ("team exists", "team_not_found", lambda claims: claims | {"sub": f"team:{NOBODY}"}),
    ("active", "team_inactive", lambda claims: claims | {"sub": f"team:{DELETED}"}),
    ("jti", "stale_jti", lambda claims: claims | {"jti": "another"}),
]
"""The faults of a signed token, in the order in which they are checked."""


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(a, b, id=f"{a[0]} before {b[0]}") for a, b in itertools.combinations(FAULTS, 2)],
)
async def test_of_two_faults_the_first_in_the_order_of_checks_is_reported(
    resolver: Replica,
    gateway: Bus,
    first: tuple[str, str, Callable[[Claims], Claims]],
    second: tuple[str, str, Callable[[Claims], Claims]],
) -> None:
    with pytest.raises(Denied) as refused:
        await resolved(gateway, BOTH_KEY.sign(first[2](second[2](team_claims()))))
    assert refused.value.code == first[1]
    assert resolver.failures() == {first[1]: 1}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[0])
async def test_kid_and_signature_are_checked_before_all_other_faults(
    resolver: Replica, gateway: Bus, truth: Truth, fault: tuple[str, str, Callable[[Claims], Claims]]
) -> None:
    claims = fault[2](team_claims())
    for bearer in (STRANGE_KEY.sign(claims), STRANGE_KEY.sign(claims, kid=BOTH_KEY.kid)):
        with pytest.raises(Denied) as refused:
            await resolved(gateway, bearer)
        assert refused.value.code == "invalid_signature"
    assert resolver.failures() == {"invalid_signature": 2}
    assert {key.kind for wanted in truth.asked for key in wanted} == {"key"}, "no team is asked for by a stranger"
