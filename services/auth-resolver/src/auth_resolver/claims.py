"""Parses JWTs and checks their claims (auth contract, sections 5.1 and 5.2).

Parsing is strict: a JWT that two parsers could read in two ways is refused. Claims are checked in the order of the
contract's failure table, each check with its own reason.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import Any, Literal, TypeIs, cast

from pallas_contracts.auth import AUTH_FAILURES, LONGEST_BEARER, KeyPurpose, LookupKey
from pallas_contracts.errors import Denied

LEEWAY = 30.0
"""Seconds that clocks may differ by."""

PER_TURN_LIFE = 600.0
"""Maximum lifetime of a per-turn token, in seconds."""

_ISSUERS = {"daedalus": "turn", "mnemosyne": "team"}
_MOST_LIBRARIES = 1000
_LONGEST_NAME = 200
_END_OF_TIME = 253_402_300_799
"""The last second that a `datetime` can represent."""

_FORM = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]*")
_TEAM = re.compile(r"team:([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})")
_KID = re.compile(r"[!-~]{1,128}")

type JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TeamClaims:
    """The claims of a valid team JWT."""

    jti: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class TurnClaims:
    """The claims of a valid per-turn JWT."""

    subject: str
    workspace: str
    libraries: tuple[str, ...]
    jti: str
    issued_at: float
    expires_at: float


@dataclass(slots=True)
class Parts:
    """The parts of a JWT, not verified.

    `purpose` is the purpose that its key must have. `rows` are the rows to judge it by: the key, and the team if it
    claims to be a team JWT. `checked` are its claims once they were found valid: from then on they can only expire.
    """

    kid: str
    claims: JsonObject
    purpose: KeyPurpose
    rows: tuple[LookupKey, ...]
    checked: TeamClaims | TurnClaims | None = None


def take_apart(text: str) -> Parts | None:
    """Parse a JWT. None if it is not one."""
    form = _FORM.fullmatch(text) if len(text) <= LONGEST_BEARER else None
    if form is None:
        return None
    head, claims = _json(form[1]), _json(form[2])
    if head is None or claims is None or "crit" in head or "b64" in head:
        return None
    kid = head.get("kid")
    if not isinstance(kid, str) or not _KID.fullmatch(kid):
        return None
    rows = [LookupKey(kind="key", id=kid)]
    purpose = "team" if kind_of(claims) == "team" else "turn"
    if purpose == "team" and (team := _team_of(claims.get("sub"))) is not None:
        rows.append(LookupKey(kind="team", id=team))
    return Parts(kid, claims, purpose, tuple(rows))


def check_claims(parts: Parts, now: float, *, per_turn: bool = True) -> TeamClaims | TurnClaims:
    """Check a verified token's claims in the contract's order: exp, iss, the others, typ.

    Without `per_turn` the issuer of per-turn tokens is refused.

    Raises:
        Denied: with the reason.
    """
    if parts.checked is None:
        parts.checked = _check_all(parts.claims, now, per_turn=per_turn)
    elif now > parts.checked.expires_at + LEEWAY:
        raise refused("expired")
    return parts.checked


def _check_all(claims: JsonObject, now: float, *, per_turn: bool) -> TeamClaims | TurnClaims:
    expires_at = _seconds(claims, "exp")
    if now > expires_at + LEEWAY:
        raise refused("expired")
    issuer = claims.get("iss")
    if not isinstance(issuer, str):
        raise refused("malformed")
    if issuer not in _ISSUERS or (issuer == "daedalus" and not per_turn):
        raise refused("invalid_issuer")
    subject, jti, issued_at = _name(claims, "sub"), _name(claims, "jti"), _seconds(claims, "iat")
    if max(issued_at, _seconds(claims, "nbf") if "nbf" in claims else 0.0) > now + LEEWAY:
        raise refused("malformed")
    if kind_of(claims) != _ISSUERS[issuer]:
        raise refused("malformed")
    if issuer == "mnemosyne":
        if _team_of(subject) is None:
            raise refused("malformed")
        return TeamClaims(jti, expires_at)
    if expires_at - issued_at > PER_TURN_LIFE or expires_at > now + PER_TURN_LIFE + LEEWAY:
        raise refused("malformed")
    return TurnClaims(subject, _name(claims, "ws"), _libraries(claims.get("libs")), jti, issued_at, expires_at)


def kind_of(claims: JsonObject) -> Literal["team", "turn", "unknown"]:
    """The kind of JWT that the claims state, whoever signed it."""
    if "typ" not in claims:
        return "turn"
    return "team" if claims["typ"] == "team" else "unknown"


def _json(part: str) -> JsonObject | None:
    try:
        raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        value: Any = json.loads(raw, object_pairs_hook=_object, parse_constant=_no_number)
    except (binascii.Error, ValueError, RecursionError):
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None  # JSON objects have string keys


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    """An object without duplicate names, of which parsers would take different values."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _is_name(value: object) -> TypeIs[str]:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable()


def _name(claims: JsonObject, claim: str) -> str:
    value = claims.get(claim)
    if not _is_name(value):
        raise refused("malformed")
    return value


def _seconds(claims: JsonObject, claim: str) -> float:
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _END_OF_TIME:
        raise refused("malformed")
    return float(value)


def _libraries(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise refused("malformed")
    names = cast("list[object]", value)
    if len(names) > _MOST_LIBRARIES or not all(_is_name(name) for name in names):
        raise refused("malformed")
    return tuple(dict.fromkeys(filter(_is_name, names)))


def _team_of(subject: object) -> str | None:
    """The team's id in a subject `team:<uuid>`, in the form in which it is kept."""
    found = _TEAM.fullmatch(subject) if isinstance(subject, str) else None
    return found[1].lower() if found else None


def refused(reason: str) -> Denied:
    """The refusal for one of the reasons of `AUTH_FAILURES`. It discloses nothing of the token."""
    return Denied(AUTH_FAILURES[reason], code=reason)
