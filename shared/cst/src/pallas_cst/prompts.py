"""Prompts (RFC-018, "MCP Prompts"): what a model needs to know to write a pipeline, or to mend one."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pallas_cst import documents

MOST_MODULES = 200
"""So many modules are listed in full; of more, only their names."""

_MOST_NAMES = 20
"""Names of one namespace."""
_CODE = re.compile(r"\bE\d{3}\b")
_PATTERNS = ("call-modules", "survive-failures", "numbers-above-a-limit", "optional-values")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a prompt."""

    name: str
    description: str
    required: bool


WRITE, DEBUG = "write_pipeline", "debug_pipeline"
PROMPTS = {
    WRITE: (
        "Help write a Constellation pipeline",
        (
            Argument("goal", "What should the pipeline accomplish?", required=True),
            Argument("available_inputs", "What inputs are available?", required=False),
        ),
    ),
    DEBUG: (
        "Help debug a failing pipeline",
        (
            Argument("source", "Pipeline source code", required=True),
            Argument("error", "Error message received", required=True),
        ),
    ),
}
"""Description and arguments of each prompt, by name."""


def write_pipeline(goal: str, available_inputs: str | None, modules: str) -> str:
    """What to know before writing a pipeline: the task, the language, the modules there are, examples."""
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


def modules_text(modules: Sequence[Mapping[str, Any]]) -> str:
    """Modules, given as documents, as `write_pipeline` has them; the standard library has a page of its own."""
    callable_ = [each for each in modules if "stdlib" not in each.get("tags", ())]
    if not callable_:
        return "There are none that you may call."
    if len(callable_) <= MOST_MODULES:
        return "\n".join(f"- `{each.get('signature') or each.get('name')}`: {_line(each)}" for each in callable_)
    spaces = defaultdict[str, list[str]](list)
    for each in callable_:
        space, _, name = str(each.get("name", "")).rpartition(".")
        spaces[space or "(none)"].append(name)
    lines = "\n".join(f"- `{space}`: {_names(names)}" for space, names in sorted(spaces.items()))
    return (
        f"There are {len(callable_)}, too many to describe here. Find them with `list_modules`, and see each with "
        f"`describe_module` before you call it. By namespace:\n\n{lines}"
    )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _line(module: Mapping[str, Any]) -> str:
    return " ".join(str(module.get("description") or "").split())


def _quoted(text: str, language: str = "") -> str:
    """A text as a block, whatever is in it."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
