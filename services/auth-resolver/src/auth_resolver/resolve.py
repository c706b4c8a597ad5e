"""Resolves a bearer to a principal and its libraries (auth contract, sections 3.2, 5.3 and 6).

A bearer of a wrong form is refused without any look-up. An empty set of libraries is a valid answer.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from auth_resolver.claims import Parts, TeamClaims, TurnClaims, check_claims, refused, take_apart
from auth_resolver.lookups import ReadThrough, Verdict
from auth_resolver.signatures import Signatures
from pallas_contracts.auth import (
    LONGEST_BEARER,
    KeyRecord,
    LibraryRecord,
    LookupKey,
    Record,
    ResolveBearer,
    Resolved,
    TeamRecord,
    TokenRecord,
)
from pallas_contracts.opaque import is_opaque_token, token_digest
from pallas_contracts.turns import Principal

log = logging.getLogger(__name__)

_ORDER: tuple[Verdict, ...] = ("hit", "miss", "bypass")


def _worse(one: Verdict, other: Verdict) -> Verdict:
    return one if _ORDER.index(one) > _ORDER.index(other) else other


@dataclass(frozen=True)
class Resolver:
    """Resolves bearers. Without `per_turn`, it refuses the per-turn JWTs of Daedalus."""

    lookups: ReadThrough
    signatures: Signatures
    per_turn: bool = True

    async def resolve(self, question: ResolveBearer) -> Resolved:
        """Resolve a bearer to its principal and the libraries that it may read.

        Raises:
            Denied: the bearer is refused; the code is one of `AUTH_FAILURES`.
            Unavailable: it cannot be checked right now.
        """
        bearer = question.bearer
        if not bearer:
            raise refused("missing")
        if len(bearer) > LONGEST_BEARER:
            raise refused("malformed")
        parts = self.signatures.known(bearer) or take_apart(bearer)
        if parts is not None:
            resolved = await self._jwt(bearer, parts, question)
        elif "." in bearer:
            raise refused("malformed")
        else:
            resolved = await self._opaque(bearer)
        if log.isEnabledFor(logging.DEBUG):
            facts = {"principal": resolved.principal.type, "libraries": len(resolved.libraries)}
            log.debug("bearer resolved", extra=facts | {"cache": resolved.cache})
        return resolved

    async def _opaque(self, bearer: str) -> Resolved:
        if not is_opaque_token(bearer):
            raise refused("token_not_found")
        key = LookupKey(kind="token", id=token_digest(bearer))
        record, verdict = await self.lookups.row(await self.lookups.cached([key]), key)
        if not isinstance(record, TokenRecord):
            raise refused("token_not_found")
        if record.revoked:
            raise refused("token_revoked")
        if record.expires_at is not None and record.expires_at.timestamp() <= time.time():
            raise refused("expired")
        if not record.user_active:
            raise refused("user_disabled")
        principal = Principal(type="token", id=record.id, name=record.name, user=record.user)
        return Resolved(
            principal=principal,
            libraries=record.libraries,
            identities=record.identities,
            cache=verdict,
            expires_at=record.expires_at,
        )

    async def _jwt(self, bearer: str, parts: Parts, question: ResolveBearer) -> Resolved:
        found = await self.lookups.cached(parts.rows)
        key, verdict = await self.lookups.row(found, parts.rows[0])
        self.signatures.check(bearer, parts, key if isinstance(key, KeyRecord) else None)
        claims = check_claims(parts, time.time(), per_turn=self.per_turn)
        if isinstance(claims, TurnClaims):
            return await self._turn(claims, verdict, question)
        return self._team(claims, await self.lookups.row(found, parts.rows[1]), verdict)

    @staticmethod
    def _team(claims: TeamClaims, row: tuple[Record | None, Verdict], verdict: Verdict) -> Resolved:
        record, second = row
        if not isinstance(record, TeamRecord):
            raise refused("team_not_found")
        if not record.active:
            raise refused("team_inactive")
        if record.active_jti != claims.jti:
            raise refused("stale_jti")
        return Resolved(
            principal=record.principal,
            libraries=record.libraries,
            identities=record.identities,
            cache=_worse(verdict, second),
            expires_at=datetime.fromtimestamp(claims.expires_at, UTC),
        )

    async def _turn(self, claims: TurnClaims, verdict: Verdict, question: ResolveBearer) -> Resolved:
        """A per-turn token. Only Redis knows whether it was used, so without Redis it is not accepted."""
        identities = await self._identities(claims.libraries) if question.identities and claims.libraries else {}
        if question.uses_up:
            left = claims.expires_at - time.time() + 60
            if not await self.lookups.cache.use_up(token_digest(claims.jti), claims.issued_at, left):
                raise refused("replay")
        return Resolved(
            principal=Principal(type="turn", id=claims.subject, name=claims.workspace),
            libraries=claims.libraries,
            identities=identities,
            cache=verdict,
            expires_at=datetime.fromtimestamp(claims.expires_at, UTC),
        )

    async def _identities(self, uids: Sequence[str]) -> dict[str, str]:
        keys = [LookupKey(kind="library", id=uid) for uid in uids]
        found = await self.lookups.cached(keys)
        rows = await asyncio.gather(*(self.lookups.row(found, key) for key in keys))
        return {row.uid: row.identity for row, _ in rows if isinstance(row, LibraryRecord) and row.identity}
