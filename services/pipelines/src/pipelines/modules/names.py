"""Names of agents and tools in the language.

What an identifier cannot have becomes `_`. A name that begins with a digit or a hyphen, or that is a reserved word,
gets a `_` in front. Of names that meet, the later ones in the order of the original names get `_2`, `_3` and so on.
"""

import re
from collections import Counter
from collections.abc import Iterable

from pallas_cst.types import RESERVED

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_FIRST = re.compile(r"[A-Za-z_]")


def language_names(originals: Iterable[str]) -> dict[str, str]:
    """The name in the language of each original name."""
    found: dict[str, str] = {}
    taken, last = set[str](), Counter[str]()
    for original in sorted(originals):
        name = first = _identifier(original)
        while name in taken:
            last[first] = max(2, last[first] + 1)
            name = f"{first}_{last[first]}"
        taken.add(name)
        found[original] = name
    return found


def _identifier(original: str) -> str:
    name = _NOT_ALLOWED.sub("_", original)
    return f"_{name}" if name in RESERVED or not _FIRST.match(name) else name
