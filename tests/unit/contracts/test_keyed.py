"""Hashes, turn ids and signed tokens that are made with the log key."""

import base64
import re

import pytest

from pallas_contracts.errors import Rejected
from pallas_contracts.keyed import LogKey

KEY, OTHER = LogKey("k" * 32), LogKey("o" * 32)


def test_a_conversation_has_one_hash_for_each_key() -> None:
    assert KEY.conversation("c-1") == LogKey("k" * 32).conversation("c-1")
    assert len({KEY.conversation("c-1"), KEY.conversation("c-2"), OTHER.conversation("c-1")}) == 3


def test_a_turn_id_is_the_same_for_the_same_call_and_a_version_8_uuid() -> None:
    made = KEY.turn_id("peer:1", "studio", {"b": 1, "a": 2})
    assert made == KEY.turn_id("peer:1", "studio", {"a": 2, "b": 1})
    assert made != KEY.turn_id("peer:1studio", {"a": 2, "b": 1})
    assert re.fullmatch(r"[0-9a-f]{12}8[0-9a-f]{3}[89ab][0-9a-f]{15}", made)


def test_a_signed_value_is_read_back() -> None:
    assert KEY.verify("event", KEY.sign("event", ["t", 1, None])) == ["t", 1, None]


@pytest.mark.parametrize("token", ["", "x", "é", "A" * 44, "%%%%", base64.urlsafe_b64encode(b"0" * 16).decode()])
def test_a_token_that_was_not_signed_is_refused(token: str) -> None:
    with pytest.raises(Rejected):
        KEY.verify("event", token)


def test_a_token_is_valid_for_its_key_and_its_use_only() -> None:
    token = KEY.sign("event", 1)
    for key, use in ((OTHER, "event"), (KEY, "another use")):
        with pytest.raises(Rejected):
            key.verify(use, token)


def test_a_changed_token_is_refused() -> None:
    token = KEY.sign("event", {"turn": "a"})
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    raw[-3] ^= 1
    with pytest.raises(Rejected):
        KEY.verify("event", base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("="))


def test_the_key_is_not_printed() -> None:
    assert "kkk" not in repr(KEY)
