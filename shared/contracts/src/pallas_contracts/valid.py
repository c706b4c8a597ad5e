"""Text and numbers from outside, made valid at the door they come in by.

Python reads from JSON, and takes from models and functions, what no other JSON reader takes and UTF-8 cannot hold: lone
surrogates, NaN and infinity. Callers are refused such input (`pallas_jsonrpc.strict_json`); what models, tools and
functions have answered is mended here, since it has happened and may have been paid.
"""

import math
from typing import Any

_MOST_LEVELS = 200
"""Levels of arrays and objects that readers of the log take."""


def valid_text(text: str) -> str:
    """The text with pairs of surrogates joined, and each other surrogate as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def valid_json(value: object) -> Any:
    """The value with valid texts, also as keys. Nothing is copied where nothing has to be mended.

    Raises:
        ValueError: it has a number that is not finite, or more levels than readers take. The message says which.
        TypeError: it is not JSON.
    """
    return _valid(value, _MOST_LEVELS)


def _valid(value: Any, levels: int) -> Any:
    match value:
        case str():
            return valid_text(value)
        case None | bool() | int():
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is no number of JSON")
            return value
        case dict() | list() | tuple() if not levels:
            raise ValueError(f"it has more than {_MOST_LEVELS} levels")
        case {**entries}:
            mended = _valid_object(entries, levels - 1)
            return value if mended is None else mended
        case [*items]:
            mended = [_valid(each, levels - 1) for each in items]
            return value if all(a is b for a, b in zip(mended, items, strict=True)) else mended
        case _:
            raise TypeError(f"{type(value).__name__} is not JSON")


def _valid_object(entries: dict[Any, Any], levels: int) -> dict[str, object] | None:
    """The mended object; None if nothing has to be mended."""
    mended: dict[str, object] = {}
    same = True
    for key, each in entries.items():
        if not isinstance(key, str):
            raise TypeError("a key is no text")
        name, inner = valid_text(key), _valid(each, levels)
        same = same and name is key and inner is each
        mended[name] = inner
    return None if same else mended
