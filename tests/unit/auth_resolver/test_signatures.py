"""What is remembered of a JWT once its signature was verified."""

import gc
from collections.abc import Iterator
from typing import Any

from tests.integration.auth_resolver.bearers import FERNET_KEY, TEAM_KEY, team_claims

from auth_resolver.claims import take_apart
from auth_resolver.signatures import Signatures


def reachable_texts(root: object) -> Iterator[str | bytes]:
    """Every text that can be reached from an object, types and modules left out."""
    seen, pending = set[int](), list[Any]([root])
    while pending:
        one = pending.pop()
        if id(one) in seen or isinstance(one, type) or type(one).__name__ in ("module", "function"):
            continue
        seen.add(id(one))
        if isinstance(one, str | bytes):
            yield one
        pending += gc.get_referents(one)
        if isinstance(one, dict):  # the collector leaves out the keys where all of them are strings
            pending += one


def test_a_verified_jwt_is_recognised_and_its_text_is_not_kept() -> None:
    signatures = Signatures([FERNET_KEY])
    jwt = TEAM_KEY.sign(team_claims())
    parts = take_apart(jwt)
    assert parts is not None
    assert signatures.known(jwt) is None
    signatures.check(jwt, parts, TEAM_KEY.record)
    assert signatures.known(jwt) is parts
    signature = jwt.rpartition(".")[2]
    assert parts.kid in reachable_texts(signatures), "the search finds what is kept"
    assert not [text for text in reachable_texts(signatures) if signature in str(text)]
