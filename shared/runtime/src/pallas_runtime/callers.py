"""Callers as settings name them: by type (`user`), or one team or token by id (`team:ID`, `token:ID`)."""

from collections.abc import Collection
from typing import get_args

from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Principal
from pallas_runtime.settings import variable

_TYPES = frozenset[str](get_args(Principal.model_fields["type"].annotation))


def check_callers(field: str, words: Collection[str]) -> None:
    """Check the words of a setting.

    Raises:
        Rejected: a word names no callers (`bad_settings`).
    """
    for word in words:
        if word not in _TYPES and not word.startswith(("team:", "token:")):
            known = ", ".join(sorted(_TYPES))
            reason = f"{word!r} is none of {known}, team:ID and token:ID"
            raise Rejected(f"{variable(field)}: {reason}", code="bad_settings")


def is_among(caller: Principal, words: Collection[str]) -> bool:
    """Whether the words name this caller."""
    return caller.type in words or caller.label in words
