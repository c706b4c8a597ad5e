"""Finds texts in programs that look like keys or passwords: who stores a program should not store these with it."""

import re
from collections.abc import Iterator

from pallas_contracts.agents import JsonObject
from pallas_cst import syntax as s
from pallas_cst.faults import Warned, diagnostics
from pipelines.programs.program import Program

_KNOWN = re.compile(
    r"""
    \b(sk|pk|rk)[-_](live|test|proj|ant)?[-_A-Za-z0-9]{16,}   # model providers, payments
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \b(AKIA|ASIA)[A-Z0-9]{16}\b | \bAIza[\w-]{30,} | \bxox[abprs]-[\w-]{10,}
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]* # a JSON Web Token
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    | \bBearer\ [\w.~+/-]{16,}
    | ://[^\s/:@]+:[^\s/@]+@           # an address with a password
    """,
    re.VERBOSE,
)
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[A-Za-z0-9+/_=-]{32,}")
_LONGEST = 4096
_HINT = "The text looks like a key or password; everybody who may read the pipeline can read it"


def key_warnings(program: Program) -> list[JsonObject]:
    """Warnings about texts that look like keys, in the form of `Program.warnings`. They never have the text."""
    found = (expr for expr in program.checked.types if any(map(looks_like_a_key, _texts(expr))))
    ordered = sorted(found, key=lambda expr: expr.span.start)
    return diagnostics(program.source, (Warned(_HINT, expr.span) for expr in ordered))


def looks_like_a_key(text: str) -> bool:
    """Whether a text has the form of a known kind of key, or is one long random word."""
    return bool(_KNOWN.search(text[:_LONGEST]) or _RANDOM.fullmatch(text[:_LONGEST]))


def _texts(expr: s.Expr) -> Iterator[str]:
    if isinstance(expr, s.Interpolation):
        yield from expr.texts
    elif isinstance(expr, s.Constant) and isinstance(expr.value, str):
        yield expr.value
