"""What a caller may do (RFC-018, "API Key Scoping"): scopes by settings, and keys of the HTTP API with roles."""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Denied, Rejected
from pallas_contracts.turns import API_KEY_ID, Principal
from pallas_cst import syntax as s
from pallas_cst.faults import Warned, diagnostics
from pallas_runtime.front import check_callers, is_among
from pallas_runtime.settings import variable
from pipelines.programs import Program
from pipelines.settings import PipelinesSettings

SHORTEST_KEY = 24
"""Characters of a key."""


class Scope(IntEnum):
    """Each scope includes those before it."""

    NONE = 0
    READ = 1
    EXECUTE = 2
    WRITE = 3
    ADMIN = 4

    def __str__(self) -> str:
        return self.name.lower()

    def check(self, needed: "Scope") -> None:
        """Check that this scope includes another.

        Raises:
            Denied: it does not (`scope`).
        """
        if self < needed:
            has = f"has the scope `{self}`" if self else "has no scope"
            raise Denied(f"This needs the scope `{needed}`; the caller {has}.", code="scope")


_ROLES = {"ReadOnly": Scope.READ, "Execute": Scope.EXECUTE, "Write": Scope.WRITE, "Admin": Scope.ADMIN}


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of the HTTP API. It is never printed."""

    secret: bytes = field(repr=False)
    scope: Scope

    @property
    def id(self) -> str:
        return f"{API_KEY_ID}{hashlib.sha256(self.secret).hexdigest()[:8]}"


@dataclass(frozen=True)
class Scopes:
    """The scope of each caller. A caller with a key has the scope of the key's role, whatever the settings say."""

    words: Mapping[Scope, frozenset[str]]
    keys: tuple[_Key, ...] = ()

    @classmethod
    def of(cls, settings: PipelinesSettings) -> "Scopes":
        """The scopes by the settings.

        By default every caller that is known may read, execute and write, one with the bearer of a turn may not write.
        While bearers are ignored and there are no keys, every caller counts as known.

        Raises:
            Rejected: a setting is invalid (`bad_settings`); the error never has a key.
        """
        given = settings.constellation_api_keys
        keys = tuple(_keys(given.get_secret_value())) if given is not None else ()
        if len({key.id for key in keys}) < len(keys):
            raise _bad_keys("two keys are the same")
        identified = ("user", "team", "token")
        known = identified if settings.gateway_auth != "off" or keys else (*identified, "peer")
        words = {
            Scope.READ: _or(settings.pipeline_read, (*known, "turn")),
            Scope.EXECUTE: _or(settings.pipeline_execute, (*known, "turn")),
            Scope.WRITE: _or(settings.pipeline_write, known),
            Scope.ADMIN: frozenset(settings.pipeline_admin),
        }
        for scope, callers in words.items():
            check_callers(f"pipeline_{scope}", callers)
        return cls(words, keys)

    @property
    def has_keys(self) -> bool:
        """Whether the HTTP API has keys."""
        return bool(self.keys)

    def principal_of(self, key: str) -> Principal | None:
        """The caller that has this key; None if it is none of ours. The time it takes does not depend on the key."""
        found = [known for known in self.keys if hmac.compare_digest(known.secret, key.encode())]
        return Principal(type="token", id=found[0].id) if found else None

    def scope_of(self, caller: Principal) -> Scope:
        """The scope of a caller."""
        if caller.type == "token":
            for key in self.keys:
                if key.id == caller.id:
                    return key.scope
        return max((scope for scope, words in self.words.items() if is_among(caller, words)), default=Scope.NONE)

    def check(self, caller: Principal, needed: Scope) -> None:
        """Check that a caller has a scope.

        Raises:
            Denied: it has not (`scope`).
        """
        self.scope_of(caller).check(needed)


def _or(given: tuple[str, ...] | None, default: tuple[str, ...]) -> frozenset[str]:
    return frozenset(default if given is None else given)


def _keys(given: str) -> list[_Key]:
    found = list[_Key]()
    for number, entry in enumerate(given.split(","), start=1):
        secret, _, role = (part.strip() for part in entry.rpartition(":"))
        if len(secret) < SHORTEST_KEY:
            raise _bad_keys(f"key {number} has fewer than {SHORTEST_KEY} characters")
        if role not in _ROLES:
            raise _bad_keys(f"the role of key {number} is none of {', '.join(_ROLES)}")
        found.append(_Key(secret.encode(), _ROLES[role]))
    return found


def _bad_keys(reason: str) -> Rejected:
    return Rejected(f"{variable('constellation_api_keys')}: {reason}", code="bad_settings")


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
