"""Forged bearers (RFC 8725, section 2, and more): each is refused with the message of the contract and counted, and no
part of it is logged."""

import base64
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.integration.auth_resolver.bearers import (
    BOTH_KEY,
    ED_KEY,
    JTI,
    RETIRED_KEY,
    STRANGE_KEY,
    TEAM,
    TEAM_KEY,
    TURN_KEY,
    Key,
    encoded,
    opaque,
    team_claims,
    turn_claims,
    without,
)
from tests.integration.auth_resolver.lab import Replica, Truth, resolved
from tests.requirements import requirement

from pallas_bus.connection import Bus
from pallas_contracts.errors import Denied

type Make = Callable[[], str]


def now() -> int:
    return int(time.time())


def unsigned(algorithm: object, key: Key = TEAM_KEY) -> str:
    """A JWT without a signature."""
    header = {"alg": algorithm, "typ": "JWT", "kid": key.kid}
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(team_claims()).encode())}."


def confused() -> str:
    """A JWT signed by HS256 with the public key of EdDSA as the secret."""
    return Key(ED_KEY.kid, ("team",), secret=ED_KEY.public).sign(team_claims())


def twice(text: str, name: str, value: object) -> bytes:
    """A JSON object with a duplicate member."""
    return text[:-1].encode() + f', "{name}": {json.dumps(value)}}}'.encode()


def parts_of(bearer: str) -> list[str]:
    return bearer.split(".")


def with_part(bearer: str, index: int, change: Callable[[str], str]) -> str:
    parts = parts_of(bearer)
    parts[index] = change(parts[index])
    return ".".join(parts)


def header_with(**fields: object) -> Make:
    return lambda: TEAM_KEY.sign(team_claims(), **fields)


def kid(value: object) -> Make:
    return lambda: TEAM_KEY.sign(team_claims(), kid=value)


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


SIGNATURE: dict[str, Make] = {
    "alg none": lambda: unsigned("none"),
    "alg None, in another spelling": lambda: unsigned("nOnE"),
    "alg none with the signature of a good one": lambda: f"{unsigned('none')}{parts_of(valid_bearer())[2]}",
    "alg empty": lambda: unsigned(""),
    "alg null": lambda: unsigned(None),
    "alg is a list": lambda: unsigned(["HS256"]),
    "alg is an object": lambda: unsigned({"HS256": 1}),
    "no alg": lambda: TEAM_KEY.sign_raw(json.dumps({"kid": TEAM_KEY.kid}).encode(), team_claims()),
    "another alg of the same secret": header_with(alg="HS512"),
    "HS256 with the public key as secret": confused,
    "HS256 key named by an EdDSA token": lambda: ED_KEY.sign(team_claims(), kid=TEAM_KEY.kid),
    "signed by an empty secret": lambda: Key(TEAM_KEY.kid, ("team",), secret=b"").sign(team_claims()),
    "signed by the kid": lambda: Key(TEAM_KEY.kid, ("team",), secret=TEAM_KEY.kid.encode()).sign(team_claims()),
    "no signature": lambda: with_part(valid_bearer(), 2, lambda _: ""),
    "half a signature": lambda: with_part(valid_bearer(), 2, lambda part: part[:21]),
    "a signature and more": lambda: with_part(valid_bearer(), 2, lambda part: part + "AAAA"),
    "a changed payload": lambda: with_part(valid_bearer(), 1, lambda _: encoded(json.dumps(team_claims("x")).encode())),
    "a retired key": lambda: RETIRED_KEY.sign(team_claims()),
    "a key for per-turn tokens signs a team's": lambda: TURN_KEY.sign(team_claims()),
    "the same, as its issuer": lambda: TURN_KEY.sign(team_claims(iss="daedalus")),
    "a key for teams signs a per-turn token": lambda: TEAM_KEY.sign(turn_claims()),
    "the key comes with the token": lambda: STRANGE_KEY.sign(
        team_claims(), jwk={"kty": "oct", "k": encoded(STRANGE_KEY.secret), "kid": STRANGE_KEY.kid}
    ),
    "the key is to be fetched": lambda: STRANGE_KEY.sign(team_claims(), jku="http://127.0.0.1:1/jwks.json"),
    "kid unknown": kid("team-ffffffffffffffff"),
    "kid is a path": kid("../../../../dev/null"),
    "kid is SQL": kid("'or'1'='1"),
    "kid is a pattern": kid("*"),
    "kid is another kind of look-up": kid(f"team:{TEAM}"),
    "kid is an address": kid("http://127.0.0.1:1/key"),
    "kid in capitals": kid(TEAM_KEY.kid.upper()),
}
"""JWTs that no valid key has signed."""

FORM: dict[str, Make] = {
    "no kid": lambda: TEAM_KEY.sign_raw(b'{"alg":"HS256"}', team_claims()),
    "kid empty": kid(""),
    "kid null": kid(None),
    "kid is a number": kid(7),
    "kid is a list": kid([TEAM_KEY.kid]),
    "kid with blanks": kid("team key"),
    "kid with a line feed": kid(f"{TEAM_KEY.kid}\n"),
    "kid with a null": kid(f"{TEAM_KEY.kid}\0"),
    "kid of half a character": kid("\ud800"),
    "kid is huge": kid("k" * 4000),
    "crit": header_with(crit=["exp"]),
    "crit of b64": header_with(crit=["b64"], b64=False),
    "b64": header_with(b64=True),
    "kid twice": lambda: TEAM_KEY.sign_raw(
        twice(json.dumps({"alg": "HS256", "kid": "team-ffffffffffffffff"}), "kid", TEAM_KEY.kid), team_claims()
    ),
    "alg twice": lambda: TEAM_KEY.sign_raw(
        twice(json.dumps({"alg": "none", "kid": TEAM_KEY.kid}), "alg", "HS256"), team_claims()
    ),
    "sub twice": lambda: TEAM_KEY.sign(twice(json.dumps(team_claims()), "sub", f"team:{uuid.uuid4()}")),
    "a name twice, further in": lambda: TEAM_KEY.sign(
        json.dumps(team_claims(x=0)).replace('"x": 0', '"x": {"y": 1, "y": 2}').encode()
    ),
    "header is no JSON": lambda: TEAM_KEY.sign_raw(b"{", team_claims()),
    "header is a list": lambda: TEAM_KEY.sign_raw(b"[]", team_claims()),
    "claims are no JSON": lambda: TEAM_KEY.sign(b"{'iss': 1}"),
    "claims are a list": lambda: TEAM_KEY.sign(b"[1]"),
    "claims are a text": lambda: TEAM_KEY.sign(b'"iss"'),
    "claims are nothing": lambda: TEAM_KEY.sign(b""),
    "claims are bytes": lambda: TEAM_KEY.sign(b"\xff\xfe\x00"),
    "claims in UTF-16": lambda: TEAM_KEY.sign(json.dumps(team_claims()).encode("utf-16") + b"\xd8"),
    "nested lists": lambda: TEAM_KEY.sign(b"[" * 2000 + b"]" * 2000),
    "NaN": lambda: TEAM_KEY.sign(json.dumps(team_claims(exp=0)).replace('"exp": 0', '"exp": NaN').encode()),
    "exp is infinite": lambda: TEAM_KEY.sign(
        json.dumps(team_claims(exp=0)).replace('"exp": 0', '"exp": Infinity').encode()
    ),
    "a number of 5000 digits": lambda: TEAM_KEY.sign(b'{"exp": ' + b"9" * 5000 + b"}"),
    "1 MB": lambda: TEAM_KEY.sign(team_claims(x="x" * 700_000)),
    "1 MB that is no JWT": lambda: "x" * 1_000_000,
    "just too long": lambda: TEAM_KEY.sign(team_claims(x="x" * 6200)),
    "only dots": lambda: "..",
    "nothing but a signature": lambda: f"..{encoded(b'x' * 32)}",
    "a dot behind": lambda: f"{valid_bearer()}.",
    "a dot in front": lambda: f".{valid_bearer()}",
    "four parts": lambda: f"{valid_bearer()}.{encoded(b'x')}",
    "encrypted (five parts)": lambda: ".".join([encoded(b'{"alg":"dir","enc":"A256GCM"}'), "", *["AAAA"] * 3]),
    "a blank in front": lambda: f" {valid_bearer()}",
    "a line feed behind": lambda: f"{valid_bearer()}\n",
    "a tab inside": lambda: with_part(valid_bearer(), 1, lambda part: f"{part[:5]}\t{part[5:]}"),
    "padding": lambda: with_part(valid_bearer(), 0, lambda part: f"{part}{'=' * (-len(part) % 4 or 4)}"),
    "the other alphabet": lambda: with_part(
        valid_bearer(),
        1,
        lambda part: base64.b64encode(base64.urlsafe_b64decode(part + "==") + b" ~~~???").decode().rstrip("="),
    ),
    "a letter that looks the same": lambda: valid_bearer().replace("e", "\N{CYRILLIC SMALL LETTER IE}", 1),
    "a full-width dot": lambda: with_part(valid_bearer(), 1, lambda part: f"\N{FULLWIDTH FULL STOP}{part}"),
    "a null": lambda: f"{valid_bearer()}\0",
    "with the scheme": lambda: f"Bearer {valid_bearer()}",
}
"""Texts that are no JWT, or are ambiguous."""


def team_of(**claims: object) -> Make:
    return lambda: TEAM_KEY.sign(team_claims(**claims))


def turn_of(**claims: object) -> Make:
    return lambda: TURN_KEY.sign(turn_claims(**claims))


WRONG_VALUES: dict[str, tuple[object, ...]] = {
    "iss": (None, 1, ["mnemosyne"], {"mnemosyne": 1}),
    "sub": (None, 1, [f"team:{TEAM}"], "", TEAM, "team:", f"team:{TEAM} ", f"Team:{TEAM}"),
    "exp": (None, "2100-01-01", "4000000000", True, -1, [4_000_000_000], 1e300),
    "iat": (None, "now", False, {}, -5),
    "jti": (None, 7, "", [JTI], "x" * 300, "a\nb", "\ud800"),
    "nbf": (None, "x"),
}
CLAIMS: dict[str, Make] = {
    **{
        f"team without {name}": lambda name=name: TEAM_KEY.sign(without(team_claims(), name))
        for name in ("iss", "sub", "iat", "exp", "jti")
    },
    **{
        f"per-turn without {name}": lambda name=name: TURN_KEY.sign(without(turn_claims(), name))
        for name in ("iss", "sub", "iat", "exp", "jti", "ws", "libs")
    },
    "nested junk": lambda: TURN_KEY.sign(deep(1000)),
    "no claims at all": lambda: TURN_KEY.sign({}),
    **{
        f"{name} is {value!r}": lambda name=name, value=value: BOTH_KEY.sign(team_claims(**{name: value}))
        for name, values in WRONG_VALUES.items()
        for value in values
    },
    "exp has 400 digits": lambda: TEAM_KEY.sign(
        json.dumps(team_claims(exp=0)).replace('"exp": 0', f'"exp": {"9" * 400}').encode()
    ),
    "sub is a team in other words": team_of(sub=f"team:{{{TEAM}}}"),
    "sub is a team as a URN": team_of(sub=f"team:urn:uuid:{TEAM}"),
    "sub is SQL": team_of(sub="team:' or true --"),
    "team of the other issuer": lambda: BOTH_KEY.sign(team_claims(iss="daedalus")),
    "per-turn of the other issuer": lambda: BOTH_KEY.sign(turn_claims(iss="mnemosyne")),
    "per-turn that says team": lambda: BOTH_KEY.sign(turn_claims(typ="team", sub=f"team:{TEAM}")),
    "typ is unknown": lambda: BOTH_KEY.sign(team_claims(typ="access")),
    "typ in capitals": lambda: BOTH_KEY.sign(team_claims(typ="TEAM")),
    "typ is null": lambda: BOTH_KEY.sign(turn_claims(typ=None)),
    "typ is empty": lambda: BOTH_KEY.sign(turn_claims(typ="")),
    "typ is a list": lambda: BOTH_KEY.sign(team_claims(typ=["team"])),
    "iat in the future": team_of(iat=now() + 3600),
    "not valid yet": team_of(nbf=now() + 3600),
    "per-turn, exp too far": lambda: turn_of(iat=now() - 60, exp=now() + 700)(),
    "per-turn, exp too far for its iat": lambda: turn_of(iat=now() - 100, exp=now() + 550)(),
    "per-turn that lives ten years": lambda: turn_of(exp=now() + 315_360_000)(),
    "libs is a text": turn_of(libs="lib_a"),
    "libs is an object": turn_of(libs={"lib_a": True}),
    "libs is null": turn_of(libs=None),
    "libs holds a number": turn_of(libs=["lib_a", 1]),
    "libs holds a list": turn_of(libs=[["lib_a"]]),
    "libs holds nothing": turn_of(libs=[""]),
    "libs holds half a character": turn_of(libs=["\udfff"]),
    "more libs than there can be": turn_of(libs=[str(number) for number in range(1001)]),
    "ws is a list": turn_of(ws=["ws_abc"]),
}
"""JWTs with a valid signature and wrong claims."""

OPAQUE: dict[str, Make] = {
    "a word": lambda: "hunter2",
    "a blank": lambda: " ",
    "a line feed": lambda: "\n",
    "an emoji": lambda: "🔑" * 20,
    "only the prefix": lambda: "pallas_",
    "of the right form, with a wrong checksum": lambda: "pallas_" + "0" * 49,
    "a blank behind": lambda: f"{OPAQUE_TOKEN.text} ",
    "in capitals": lambda: OPAQUE_TOKEN.text.upper(),
    "its digest": lambda: OPAQUE_TOKEN.key.id,
    "JSON serialisation": lambda: json.dumps(
        {"payload": parts_of(valid_bearer())[1], "signature": parts_of(valid_bearer())[2]}
    ),
    "SQL": lambda: "' or 1=1 --",
}
"""Texts that are no opaque token."""

OPAQUE_TOKEN = opaque("known")
ATTACKS = {
    f"{kind}: {name}": (make, reason)
    for kind, reason, attacks in (
        ("signature", "invalid_signature", SIGNATURE),
        ("form", "malformed", FORM),
        ("claims", "malformed", CLAIMS),
        ("opaque", "token_not_found", OPAQUE),
    )
    for name, make in attacks.items()
}


def valid_bearer() -> str:
    """A JWT that is accepted."""
    return TEAM_KEY.sign(team_claims())


def pieces_of(bearer: str) -> Iterator[str]:
    """Pieces of a bearer, raw and decoded, that are too long to match by chance."""
    texts = [bearer]
    for part in bearer.split("."):
        plain = re.sub(r"[^\w-]", "", part, flags=re.ASCII)
        texts.append(base64.urlsafe_b64decode(plain[: len(plain) // 4 * 4]).decode(errors="ignore"))
    for text in texts:
        yield from (text[start : start + 14] for start in range(0, min(len(text), 2000) - 14, 7))


@requirement("A-5.3.2", "A-5.1.3", "A-13.2.3")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_forged_bearer_is_refused_and_counted_and_nothing_of_it_is_logged(
    resolver: Replica, gateway: Bus, truth: Truth, caplog: pytest.LogCaptureFixture, attack: str
) -> None:
    truth.know(OPAQUE_TOKEN)
    caplog.set_level(logging.DEBUG)
    make, reason = ATTACKS[attack]
    bearer = make()
    with pytest.raises(Denied) as refused:
        await resolved(gateway, bearer)
    assert (refused.value.message, refused.value.facts) == ("Invalid MCP token.", {})
    assert refused.value.code == reason
    assert resolver.failures() == {reason: 1}
    logged = "\n".join(f"{vars(record)} {record.getMessage()}" for record in caplog.records)
    assert [piece for piece in pieces_of(bearer) if piece in logged] == []
    if attack.startswith(("form", "opaque")):
        assert truth.asked == [], "team-lifecycle is not asked about malformed bearers"


async def test_the_unmodified_bearers_of_the_attacks_are_accepted(
    resolver: Replica, gateway: Bus, truth: Truth
) -> None:
    truth.know(OPAQUE_TOKEN)
    for bearer in (valid_bearer(), TURN_KEY.sign(turn_claims()), OPAQUE_TOKEN.text, BOTH_KEY.sign(team_claims())):
        await resolved(gateway, bearer)
    assert resolver.failures() == {}


async def test_a_modified_bearer_is_refused_after_the_original_was_accepted(resolver: Replica, gateway: Bus) -> None:
    bearer = valid_bearer()
    await resolved(gateway, bearer)
    other = "A" if bearer[-2] != "A" else "B"
    for changed in (f"{bearer[:-2]}{other}{bearer[-1]}", with_part(bearer, 0, lambda part: f"{part}A")):
        with pytest.raises(Denied):
            await resolved(gateway, changed)


@requirement("A-13.4.3")
async def test_an_accepted_bearer_is_logged_at_debug_by_kind_and_number_of_libraries(
    resolver: Replica, gateway: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    assert resolver.failures() == {}
    caplog.set_level(logging.DEBUG)
    bearer = valid_bearer()
    for _ in range(2):
        await resolved(gateway, bearer)
    lines = [vars(record) for record in caplog.records if record.message == "bearer resolved"]
    assert [(it["levelname"], it["principal"], it["libraries"], it["cache"]) for it in lines] == [
        ("DEBUG", "team", 2, "miss"),
        ("DEBUG", "team", 2, "hit"),
    ]
    assert [piece for piece in pieces_of(bearer) if piece in str([vars(record) for record in caplog.records])] == []
