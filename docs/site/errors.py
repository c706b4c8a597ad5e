"""The tables of docs/errors.md: where each code is raised from the sources, what it means from errors.toml."""

import tomllib
from pathlib import Path
from typing import Any

from docs.site.error_codes import Raised, error_codes
from docs.site.inserted import table, with_tables
from docs.site.paths import DOCS, ROOT

from agent_gateway.rpc.answers import CODES
from pallas_contracts.auth import AUTH_FAILURES
from pallas_contracts.turns import TURN_ERRORS
from pallas_jsonrpc.messages import AGENT_ERROR, NOT_ALLOWED

PAGE = DOCS / "errors.md"

_TEXTS = Path(__file__).with_name("errors.toml")
_ELSEWHERE = {
    "input_required": "agent-gateway",
    "tool_error": "agent-gateway",
    "result_too_large": "turns",
    "tool_unavailable": "agent-worker",
}
"""Codes that no error has: those that are made of what a turn answers, and one that is for functions of agents."""


def errors() -> str:
    """The page.

    Raises:
        ValueError: a code has no text, or a text has no code.
    """
    texts = tomllib.loads(_TEXTS.read_text("utf-8"))
    statuses, turns, calls = (texts.pop(part) for part in ("status", "turns", "calls"))
    found = error_codes()
    found |= {code: Raised({package}) for code, package in _ELSEWHERE.items()}
    others = calls | {code: said for part in texts.values() for code, said in part.items()}
    _check(set(found), set(TURN_ERRORS) | set(others), "no text in errors.toml")
    _check(set(TURN_ERRORS) | set(others), set(found), "no error")
    _check(set(TURN_ERRORS), set(turns), "no remedy in errors.toml")
    columns = ("code", "`/rpc`", "HTTP", "from", "means", "do")
    of_turns = [
        (f"`{code}`", _rpc(code), _http(code, found[code], statuses), _from(found[code]), meaning, turns[code])
        for code, meaning in TURN_ERRORS.items()
    ]
    of_others = [
        (f"`{code}`", _rpc(code), _http(code, found[code], statuses), _from(found[code]), *others[code])
        for code in sorted(others, key=str.lower)
    ]
    return with_tables(PAGE, {"turns": table(columns, of_turns), "others": table(columns, of_others)})


def _check(needed: set[str], there: set[str], what: str) -> None:
    if missing := needed - there:
        raise ValueError(f"{what}: {', '.join(sorted(missing))}")


def _rpc(code: str) -> str:
    if code in TURN_ERRORS or code in ("tool_error", "input_required"):
        return str(CODES.get(code, AGENT_ERROR))
    return str(NOT_ALLOWED) if code in AUTH_FAILURES or code in ("signature", "not_allowed") else "-"


def _http(code: str, raised: Raised, replaced: dict[str, Any]) -> str:
    return replaced.get(code, ", ".join(map(str, sorted(raised.statuses)))) or "-"


def _from(raised: Raised) -> str:
    """Packages by name: services as links."""
    return ", ".join(
        f"[{name}](../services/{name}/README.md)" if (ROOT / "services" / name).exists() else f"`shared/{name}`"
        for name in sorted(raised.packages)
    )
