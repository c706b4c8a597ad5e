"""Prompts: what a model needs to know to write a pipeline, or to mend one."""

import re
from collections import Counter
from collections.abc import Sequence

from constellation_mcp.service import Service, ServiceError
from constellation_mcp.tools import Json, modules_of
from pallas_cst import documents

MOST_MODULES = 200
"""So many modules are listed in full; of more, only how many each namespace has."""

_CODE = re.compile(r"\bE\d{3}\b")
_PATTERNS = ("call-modules", "survive-failures", "numbers-above-a-limit", "optional-values")


async def write_pipeline(service: Service, caller: str, goal: str, available_inputs: str | None) -> str:
    """What to know before writing a pipeline: the task, the language, the modules there are, examples."""
    try:
        modules = _modules(await modules_of(service, caller))
    except ServiceError as error:
        modules = f"The modules could not be listed: {error}. Use the standard library only, or ask again later."
    return "\n\n".join(
        (
            f"Write a Constellation pipeline that does this:\n\n{_quoted(goal)}",
            *((f"These inputs are available:\n\n{_quoted(available_inputs)}",) if available_inputs else ()),
            "Use only functions of the standard library and modules that are listed below. Check the program with the "
            "tool `validate` and mend every error before you show it. Show the whole program in one block.",
            documents.read("language-reference"),
            documents.read("standard-library"),
            f"# Modules\n\n{modules}",
            *(documents.read(f"examples/{name}") for name in _PATTERNS),
        )
    )


def debug_pipeline(source: str, error: str) -> str:
    """What to know before mending a pipeline: the program, the error, and the pages of the codes in it."""
    known = documents.errors()
    codes = [code for code in dict.fromkeys(_CODE.findall(error)) if code in known]
    listed = "\n".join(f"- {documents.title(f'errors/{code}')}" for code in known)
    return "\n\n".join(
        (
            f"This Constellation pipeline fails:\n\n{_quoted(source, 'cst')}",
            f"The error is:\n\n{_quoted(error)}",
            "Find the cause and mend it with the smallest change. Then check the whole program with the tool "
            "`validate`, and repeat until it has no errors. Explain the cause in one sentence.",
            *(documents.read(f"errors/{code}") for code in codes),
            *(() if codes else (f"# Error codes\n\n{listed}", documents.read("language-reference"))),
        )
    )


def _modules(modules: Sequence[Json]) -> str:
    if not modules:
        return "There are none that you may call."
    if len(modules) <= MOST_MODULES:
        return "\n".join(f"- `{each.get('signature') or each.get('name')}`: {_line(each)}" for each in modules)
    spaces = Counter(str(each.get("name", "")).rpartition(".")[0] or "(none)" for each in modules)
    lines = "\n".join(f"- `{space}`: {count}" for space, count in sorted(spaces.items()))
    return f"There are {len(modules)}, too many to list. Find them with `list_modules`. By namespace:\n\n{lines}"


def _line(module: Json) -> str:
    return " ".join(str(module.get("description") or "").split())


def _quoted(text: str, language: str = "") -> str:
    """A text as a block, whatever is in it."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
