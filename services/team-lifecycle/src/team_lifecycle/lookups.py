"""Reads the rows by which bearers are judged, in one statement and so from one snapshot.

Ids come from unchecked bearers. A malformed id is answered without Postgres.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.auth import (
    KeyRecord,
    LibraryRecord,
    LookedUp,
    LookupKey,
    Lookups,
    Record,
    TeamRecord,
    TokenRecord,
)
from pallas_contracts.errors import Rejected
from pallas_postgres.engine import postgres_errors

MOST_WANTED = 1000
"""Maximum number of rows in a question."""

_PLAIN = re.compile(r"[!-~]{1,128}")

_STATEMENT = text("""
select
  (select coalesce(max(number), 0) from changes) as version,
  (select coalesce(jsonb_agg(jsonb_build_object(
      'kid', kid, 'algorithm', algorithm, 'purposes', jsonb_build_array(purpose), 'retired', retired_at is not null,
      'secret', coalesce(case algorithm when 'EdDSA' then public else sealed end, ''))), '[]')
    from signing_keys where kid = any((:keys)::text[])) as keys,
  (select coalesce(jsonb_agg(jsonb_build_object(
      'id', id, 'name', name, 'active', active, 'active_jti', active_jti,
      'libraries', coalesce(uids, '[]'), 'identities', coalesce(identities, '{}'))), '[]')
    from teams left join lateral (
      select jsonb_agg(uid order by uid) as uids, jsonb_object_agg(uid, identity) filter (where identity is not null)
        as identities
      from libraries join team_workspaces using (workspace_id) where team_id = teams.id) as readable on active
    where id = any((:teams)::uuid[])) as teams,
  (select coalesce(jsonb_agg(jsonb_build_object(
      'digest', digest, 'id', id, 'name', tokens.name, 'user', user_name, 'user_active', active,
      'revoked', revoked_at is not null, 'expires_at', expires_at,
      'libraries', coalesce(uids, '[]'), 'identities', coalesce(identities, '{}'))), '[]')
    from tokens join users on users.name = user_name left join lateral (
      select jsonb_agg(uid order by uid) as uids, jsonb_object_agg(uid, identity) filter (where identity is not null)
        as identities
      from token_libraries join libraries on uid = library_uid where token_id = tokens.id) as readable on true
    where digest = any((:tokens)::text[])) as tokens,
  (select coalesce(jsonb_agg(jsonb_build_object('uid', uid, 'identity', identity)), '[]')
    from libraries where uid = any((:libraries)::text[])) as libraries
""")


@dataclass(frozen=True, slots=True)
class Rows:
    """`version` is the number of the last change that they contain. A row that does not exist is None."""

    version: int
    records: Mapping[LookupKey, Record | None]


class _Digested(TokenRecord):
    """The record of a token, with its digest."""

    digest: str


_KEYS = TypeAdapter(list[KeyRecord])
_TEAMS = TypeAdapter(list[TeamRecord])
_TOKENS = TypeAdapter(list[_Digested])
_LIBRARIES = TypeAdapter(list[LibraryRecord])
_KINDS = {"key": "keys", "team": "teams", "token": "tokens", "library": "libraries"}


async def look_up(session: AsyncSession, wanted: Sequence[LookupKey]) -> Rows:
    """Read the rows, with the uncommitted changes of this session."""
    plain = [key for key in wanted if _may_exist(key)]
    row = (
        await session.execute(
            _STATEMENT, {name: [key.id for key in plain if key.kind == kind] for kind, name in _KINDS.items()}
        )
    ).one()
    found: dict[LookupKey, Record] = {}
    for record in _KEYS.validate_python(row.keys):
        found[LookupKey(kind="key", id=record.kid)] = record
    for record in _TEAMS.validate_python(row.teams):
        found[LookupKey(kind="team", id=record.id)] = record
    for record in _TOKENS.validate_python(row.tokens):
        found[LookupKey(kind="token", id=record.digest)] = TokenRecord.model_validate(record.model_dump())
    for record in _LIBRARIES.validate_python(row.libraries):
        found[LookupKey(kind="library", id=record.uid)] = record
    return Rows(row.version, {key: found.get(key) for key in wanted})


def _may_exist(key: LookupKey) -> bool:
    if key.kind != "team":
        return _PLAIN.fullmatch(key.id) is not None
    try:
        return str(UUID(key.id)) == key.id
    except ValueError:
        return False


async def answer_lookups(question: Lookups, *, engine: AsyncEngine) -> LookedUp:
    """Look rows up.

    Raises:
        Rejected: too many rows are asked for.
        Unavailable: Postgres cannot be used right now.
    """
    if len(question.wanted) > MOST_WANTED:
        raise Rejected(f"wanted: must have at most {MOST_WANTED} look-ups", code="too_many")
    async with postgres_errors(), AsyncSession(engine) as session:
        rows = await look_up(session, question.wanted)
    return LookedUp(version=rows.version, records=tuple(rows.records[key] for key in question.wanted))
