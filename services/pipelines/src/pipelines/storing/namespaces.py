"""Names of pipelines (RFC-018, "Cold Pipeline Namespacing"): full names from what callers give.

Each caller has two namespaces: `user:NAME`, and `agent:NAME-DIGEST` for what is temporary. Names are short, and two
callers may have the same one; so a namespace belongs to the first caller that stores something there, and another one
gets a longer name.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import unquote

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_contracts.catalog import PIPELINE_NAMESPACES
from pallas_contracts.errors import Conflict, NotFound, Rejected
from pallas_contracts.pipelines import Namespace
from pallas_contracts.turns import Principal
from pipelines.storing.scopes import Scope, Scopes

SHARED = "shared"
"""The namespace that all see, and the owner of its programs."""

MARK_SECONDS = 3600.0
"""How long the mark of a removed entry stays: copies hear of it at once, or find it missing when they poll."""

_AGENT = "agent"
_TEMPORARY = "temp-"
_LONGEST_WORD, _LONGEST_ID = 64, 500
_SHORT_DIGEST, _LONG_DIGEST = 6, 24
_PART = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,128}")
_NAMESPACE = re.compile(r"shared|agent|(user|agent):[A-Za-z0-9._@-]{1,128}")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_NOT_IN_WORDS = re.compile(r"[^A-Za-z0-9._@-]+")

type _Kind = Literal["user", "agent"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `label` is its own word for itself, `agent:user` (header `X-Constellation-Agent`)."""

    principal: Principal
    label: str | None = None
    scope: Scope = Scope.NONE

    @classmethod
    def of(cls, scopes: Scopes, principal: Principal, label: str | None = None) -> "Caller":
        """The caller, with its scope by the settings.

        Raises:
            Denied: it lacks the scope `read`.
        """
        caller = cls(principal, label, scopes.scope_of(principal))
        caller.check(Scope.READ)
        return caller

    @property
    def identity(self) -> Principal:
        """Who owns what the caller stores: the user behind its bearer; if it has no bearer, the user in its label."""
        if self.principal.type != "peer" or not self.label:
            return owner_of(self.principal)
        return Principal(type="peer", id=user_of(self.label))

    @property
    def earlier(self) -> "Caller | None":
        """The caller as it owned what was stored when pipelines belonged to tokens; None: as now."""
        alone = self.principal.model_copy(update={"user": None})
        return replace(self, principal=alone) if self.principal.user is not None else None

    @property
    def owner(self) -> str:
        """The owner as a token."""
        return self.identity.token

    @property
    def owners(self) -> tuple[str, ...]:
        """The owner of what the caller stores, and that of what it stored earlier."""
        return (self.owner,) if self.earlier is None else (self.owner, self.earlier.owner)

    def made(self, by: Principal) -> bool:
        """Whether what was made by somebody is the caller's own."""
        return owner_of(by).token in self.owners

    def check(self, needed: Scope) -> None:
        """Check that the caller has a scope.

        Raises:
            Denied: it has not (`scope`).
        """
        self.scope.check(needed)

    def namespaces(self, kind: _Kind) -> list[str]:
        """The names that the caller's namespace may have, the one that it gets first if that is free first."""
        who = self.identity
        name = _word(who.name or who.id)
        if kind == "user":
            short = name.partition("@")[0] or name
            return [f"user:{each}" for each in dict.fromkeys((short, name, f"{name}-{who.token}"))]
        agent = _word((self.label or name).partition(":")[0])
        told = self.label or "" if who.type == "peer" else f"{who.type}:{who.id}/{self.label or ''}"
        digest = hashlib.sha256(told.encode()).hexdigest()
        return [f"agent:{agent}-{digest[:length]}" for length in (_SHORT_DIGEST, _LONG_DIGEST)]


@dataclass(frozen=True, slots=True)
class FullName:
    """The name of a pipeline with its namespace."""

    namespace: str
    part: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.part}"

    @property
    def temporary(self) -> bool:
        """Whether what is stored under this name is kept for a day only."""
        return self.namespace.startswith(f"{_AGENT}:")


def owner_of(caller: Principal) -> Principal:
    """Whose something is that a caller makes (`Principal.owner`), with the name of the user."""
    if caller.user is None:
        return caller
    kind, _, owner = caller.owner.partition(":")
    return Principal.model_validate({"type": kind, "id": owner, "name": caller.user})


def user_of(label: str) -> str:
    """The user in a label `agent:user`; the label itself if it has none."""
    return label.partition(":")[2] or label


def digest_of(name: str) -> str:
    """The key of a name in a bucket."""
    return hashlib.sha256(name.encode()).hexdigest()


def hash_of(ref: str) -> str | None:
    """The hash in a reference `sha256:HASH`; None if it is a name. Hex digits alone are a name, as at the engine."""
    found = _HASH.fullmatch(unquote(ref))
    return found[1] if found else None


def not_found(ref: str) -> NotFound:
    """The answer for what does not exist, and for what another caller owns."""
    return NotFound(f"Pipeline {ref[:300]!r} not found", code="not_found")


def read_name(given: str) -> FullName:
    """A name as a caller gives it; without a namespace it is `""`. Percent-encoded names are taken, too.

    Raises:
        Rejected: it cannot be a name (`bad_name`).
    """
    namespace, slash, part = unquote(given).rpartition("/")
    if not _PART.fullmatch(part) or (slash and not _NAMESPACE.fullmatch(namespace)):
        raise Rejected(
            "The name of a pipeline has 1 to 128 of the characters A-Z, a-z, 0-9, '.', '_' and '-'. In front of it "
            "may stand 'shared/', 'agent/', or one of your own namespaces and '/'.",
            code="bad_name",
        )
    return FullName(namespace, part)


@dataclass(frozen=True)
class Namespaces:
    """Whose each namespace is. `table` is a copy that may be a moment old."""

    bus: Bus
    table: Table[Namespace]

    async def to_read(self, caller: Caller, given: str) -> list[FullName]:
        """The names that a reference may stand for, the one that counts first. Whose they are is not checked.

        Raises:
            Rejected: it cannot be a name (`bad_name`).
            Unavailable: the broker does not answer.
        """
        name = read_name(given)
        match name.namespace:
            case "":
                kind = _kind_of(name.part)
                return [*await self._all_own(caller, kind, name.part), FullName(SHARED, name.part)]
            case "agent":
                return await self._all_own(caller, "agent", name.part)
            case _:
                return [name]

    async def to_store(self, caller: Caller, given: str) -> FullName:
        """The full name under which a caller stores; the namespace is the caller's then.

        Raises:
            Rejected: it cannot be a name (`bad_name`).
            NotFound: its namespace is another caller's.
            Unavailable: the broker does not answer.
        """
        name = read_name(given)
        if name.namespace == SHARED:
            return name
        kind = _kind_of(name.part) if not name.namespace else "user" if name.namespace.startswith("user:") else "agent"
        own = await self._own(caller, kind, take=True)
        if name.namespace not in ("", _AGENT, own):
            raise not_found(given)
        return FullName(own, name.part)

    async def release(self, namespace: Namespace) -> None:
        """Forget whose a namespace is, unless that has changed meanwhile.

        Raises:
            Unavailable: the broker does not answer.
        """
        key = digest_of(namespace.short)
        known, position = self.table.entry(key)
        if known == namespace:
            await kv.delete(self.bus, PIPELINE_NAMESPACES, after=position, marked=MARK_SECONDS, namespace=key)

    async def _all_own(self, caller: Caller, kind: _Kind, part: str) -> list[FullName]:
        callers = (caller, caller.earlier)
        return [FullName(await self._own(each, kind), part) for each in callers if each is not None]

    async def _own(self, caller: Caller, kind: _Kind, *, take: bool = False) -> str:
        """The caller's namespace, or the one that it would get now; with `take` it is the caller's then."""
        who = caller.identity
        identity = f"{who.type}:{who.id if len(who.id) <= _LONGEST_ID else who.token}"
        for short in caller.namespaces(kind):
            key = digest_of(short)
            while True:
                known, position = self.table.get(key), 0
                if known is None:
                    known, position = await kv.get_entry(self.bus, PIPELINE_NAMESPACES, namespace=key)
                if known is not None:
                    break
                if not take:
                    return short
                wanted = Namespace(short=short, identity=identity)
                try:
                    await kv.put(self.bus, PIPELINE_NAMESPACES, wanted, after=position, namespace=key)
                except Conflict:
                    continue  # another one was faster
                return short
            if known.identity == identity:
                return short
        raise Conflict("Another caller has your namespace.", code="namespace_taken")


def _kind_of(part: str) -> _Kind:
    return "agent" if part.startswith(_TEMPORARY) else "user"


def _word(text: str) -> str:
    """A text as it may stand in a namespace."""
    return _NOT_IN_WORDS.sub("-", text)[:_LONGEST_WORD].strip("-") or "caller"
