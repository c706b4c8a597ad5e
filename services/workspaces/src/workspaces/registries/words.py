"""Texts of strangers, bounded and made fit for one line, for Postgres and for the eyes."""

import unicodedata

_UNWANTED = frozenset(("Cc", "Cs", "Co", "Cn"))
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks that change the direction of the text around them, and so what a label seems to say."""


def line(value: object, limit: int) -> str:
    """`value` as one line of at most `limit` characters; empty if it is no text."""
    if not isinstance(value, str):
        return ""
    kept = "".join(_shown(character) for character in value[: 4 * limit])
    words = " ".join(kept.split())
    return words if len(words) <= limit else f"{words[: limit - 1]}…"


def _shown(character: str) -> str:
    if character in _TURNING:
        return ""
    return " " if unicodedata.category(character) in _UNWANTED else character
