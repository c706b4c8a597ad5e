"""The text of opaque tokens."""

import hashlib
import re

from pallas_contracts.opaque import is_opaque_token, new_opaque_token, token_digest


def test_a_token_has_a_fixed_prefix_and_length_that_secret_scanners_find() -> None:
    made = {new_opaque_token() for _ in range(200)}
    assert len(made) == 200
    assert all(re.fullmatch(r"pallas_[0-9A-Za-z]{49}", token) and is_opaque_token(token) for token in made)


def test_the_digest_of_a_token_is_its_sha_256() -> None:
    token = new_opaque_token()
    assert token_digest(token) == hashlib.sha256(token.encode()).hexdigest()


def test_a_typing_error_anywhere_in_a_token_is_found_without_a_look_up() -> None:
    token = new_opaque_token()
    for place in range(len("pallas_"), len(token)):
        other = "a" if token[place] != "a" else "b"
        assert not is_opaque_token(token[:place] + other + token[place + 1 :])
        assert place + 1 == len(token) or token[place] == token[place + 1] or not is_opaque_token(swapped(token, place))


def swapped(token: str, place: int) -> str:
    return token[:place] + token[place + 1] + token[place] + token[place + 2 :]


def test_other_texts_are_no_tokens() -> None:
    for text in ("", "pallas_", new_opaque_token()[:-1], new_opaque_token() + "\n", "ghp_" + "0" * 52):
        assert not is_opaque_token(text), text
