"""Texts that are typed into terminals: prompts of tasks and specifications of agents."""

import unicodedata

from pallas_contracts.errors import Rejected

_ALLOWED_CONTROLS = frozenset("\n\t")
_UNSEEN = "CZ"
"""Categories of characters that show nothing: a terminal takes a prompt of them for an empty one."""


def check_text(field: str, text: str, longest: int) -> str:
    """Return the text as it is typed: lines that end in CRLF end in a line feed.

    Raises:
        Rejected: it is empty, too long, or has control characters.
    """
    text = text.replace("\r\n", "\n")
    if not any(unicodedata.category(letter)[0] not in _UNSEEN for letter in text):
        raise Rejected(f"{field} must not be empty.", field=field)
    if len(text) > longest:
        raise Rejected(f"{field} must have at most {longest} characters.", field=field)
    for at, letter in enumerate(text):
        if unicodedata.category(letter) in ("Cc", "Cs") and letter not in _ALLOWED_CONTROLS:
            raise Rejected(
                f"{field} has the control character U+{ord(letter):04X} at position {at}; only line feeds and tabs can "
                "be typed.",
                field=field,
            )
    return text
