"""JSON that means the same to every reader (RFC 8259): no duplicate keys, no NaN, no lone surrogates, not too deep.

A text may not have too many values either: to read them takes 20 times the text's memory, and stops all threads.
"""

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import NoReturn

from pallas_contracts.bounds import Json
from pallas_contracts.errors import Rejected

DEEPEST = 128
"""Levels of arrays and objects. Messages of the log and of MCP have some more, and are read to 200 levels."""

MOST_VALUES = 200_000
"""Values of a text, and names of fields: its commas, its colons, and the brackets that begin an array or an object."""

_LARGE = 64 * 1024
"""Bytes or characters that are read at once."""


async def read_apart[T](read: Callable[[bytes | str], T], data: bytes | str) -> T:
    """`read(data)`, in a thread if the data are large, so that others do not wait."""
    return await asyncio.to_thread(read, data) if len(data) > _LARGE else read(data)


def loads(data: bytes | str) -> Json:
    """The value of a JSON text.

    Raises:
        Rejected: it is not such a text; the message says why, without the text.
    """
    try:
        text = data.decode() if isinstance(data, bytes) else data
        if has_too_many_values(text):
            raise Rejected(f"it has more than {MOST_VALUES:,} values and names of fields")
        value: Json = _DECODER.decode(text)
        if "\\" in text and ("\\ud" in text or "\\uD" in text):  # only an escape can be a lone surrogate
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise Rejected("it is not UTF-8") from None
    except UnicodeEncodeError:
        raise Rejected("a text has a lone surrogate") from None
    except RecursionError:
        raise Rejected("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Rejected(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError:
        raise Rejected("a number has too many digits") from None
    if text.count("[") + text.count("{") > DEEPEST and is_too_deep(value):
        raise Rejected("it is nested too deeply")
    return value


def has_too_many_values(text: str) -> bool:
    """Whether a JSON text has more than `MOST_VALUES` values. Those in its strings do not count."""
    if sum(map(text.count, ",:[{")) <= MOST_VALUES:
        return False
    return next(islice(_VALUES.finditer(text), MOST_VALUES + 2, None), None) is not None  # two may be the end


def is_too_deep(value: Json) -> bool:
    """Whether a value has more than `DEEPEST` levels."""
    level: list[list[Json] | dict[str, Json]] = [value] if isinstance(value, list | dict) else []
    for _ in range(DEEPEST):
        inner = (part for each in level for part in (each.values() if isinstance(each, dict) else each))
        level = [part for part in inner if isinstance(part, list | dict)]
    return level != []


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise Rejected(f"an object has the key {twice[:64]!r} twice")
    return found


def _no_constant(word: str) -> NoReturn:
    raise Rejected(f"{word} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Rejected("a number is too large")
    return value


_VALUES = re.compile(r'(?:[^",:\[{]++|"[^"\\]*+(?:\\.?[^"\\]*+)*+"?)*+(?:[,:\[{]|\Z)', re.DOTALL)
"""All up to the beginning of a value, or to the end. It takes linear time: nothing in it is tried twice."""

_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite)
"""Made once: `json.loads` would make one for each text, which takes as long as to read a short one."""
