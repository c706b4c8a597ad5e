"""In every state, each look-up that a handler changes is in its decision.

The look-ups are derived here from all rows of all tables, as the auth contract defines them, and not by the service's
own statement. A look-up that changes without being named would stay in every resolver's cache.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from tests.integration.team_lifecycle.lab import FERNET_KEY
from tests.integration.team_lifecycle.test_pending_invalidations import CASES, UNSEEN
from tests.postgres import PostgresServer

from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_postgres.engine import open_engine
from team_lifecycle.handlers import keys, libraries, memberships, teams, tokens, users
from team_lifecycle.handlers.keys import Seal
from team_lifecycle.model import ROLES, Decision, Role, Who
from team_lifecycle.tables import (
    Base,
    Library,
    Membership,
    OpaqueToken,
    SigningKey,
    Team,
    TeamWorkspace,
    TokenLibrary,
    User,
)

SEEDS, DRAWS = range(12), 3
SEAL = Seal([FERNET_KEY])
TEAMS, TOKENS = ([str(UUID(int=number)) for number in numbers] for numbers in (range(4), range(10, 15)))
WORKSPACES, LIBRARIES, USERS = ["w1", "w2", "w3"], ["a", "b", "c", "d", "e"], ["ann", "bob", "eve"]
KIDS = ["current", "other", "turn", "retired"]
TABLES = ("teams", "team_workspaces", "users", "libraries", "tokens", "token_libraries", "signing_keys")

type Draw = Callable[[random.Random, Who, AsyncSession], Awaitable[Decision[Any]]]
type LookUps = Mapping[tuple[str, str], tuple[Any, ...]]


def some[T](chance: random.Random, of: Collection[T]) -> list[T]:
    return [one for one in of if chance.random() < 0.5]


def random_state(chance: random.Random) -> list[list[Base]]:
    """Rows of a random state, in the order in which they can be inserted; the last team and library are not there."""
    now = utc_now()

    def revoked() -> Any:
        return now if chance.random() < 0.2 else None

    made: list[Base] = [
        *(Team(id=one, name=one, active=chance.random() < 0.8, active_jti="a jti") for one in TEAMS[:-1]),
        *(User(name=one, active=chance.random() < 0.8) for one in USERS),
        *(Library(uid=one, name=one, workspace_id=chance.choice([None, *WORKSPACES])) for one in LIBRARIES[:-1]),
        *(
            SigningKey(
                kid=kid,
                purpose="turn" if kid == "turn" else "team",
                algorithm="HS256",
                sealed=SEAL.close("00" * 32),
                current=kid == "current",
                retired_at=now if kid == "retired" else None,
            )
            for kid in KIDS
        ),
    ]
    held: list[Base] = [
        *(TeamWorkspace(team_id=one, workspace_id=place) for one in TEAMS[:-1] for place in some(chance, WORKSPACES)),
        *(
            Membership(library_uid=uid, user_name=user, role=role)
            for uid in LIBRARIES[:-1]
            for user in USERS
            for role in some(chance, ROLES)
        ),
        *(
            OpaqueToken(id=one, digest=f"digest-{one}", name=one, user_name=chance.choice(USERS), revoked_at=revoked())
            for one in TOKENS
        ),
    ]
    allowed: list[Base] = [
        TokenLibrary(token_id=one, library_uid=uid) for one in TOKENS for uid in some(chance, LIBRARIES[:-1])
    ]
    return [made, held, allowed]


async def look_ups(connection: AsyncConnection) -> LookUps:
    """Every look-up, by kind and id."""
    parts = ", ".join(f"'{table}', (select coalesce(json_agg({table}), '[]') from {table})" for table in TABLES)
    rows: dict[str, list[dict[str, Any]]] = await connection.scalar(text(f"select json_build_object({parts})")) or {}
    active = {row["name"]: row["active"] for row in rows["users"]}
    found: dict[tuple[str, str], tuple[Any, ...]] = {}
    for row in rows["signing_keys"]:
        secret = row["public"] if row["algorithm"] == "EdDSA" else row["sealed"]
        found["key", row["kid"]] = row["algorithm"], secret, row["purpose"], row["retired_at"]
    for row in rows["teams"]:
        places = {one["workspace_id"] for one in rows["team_workspaces"] if one["team_id"] == row["id"]}
        reads = {one["uid"] for one in rows["libraries"] if one["workspace_id"] in places}
        found["team", row["id"]] = row["name"], row["active"], row["active_jti"], reads if row["active"] else None
    for row in rows["tokens"]:
        reads = {one["library_uid"] for one in rows["token_libraries"] if one["token_id"] == row["id"]}
        user = row["user_name"], active[row["user_name"]]
        found["token", row["digest"]] = row["id"], row["name"], user, row["revoked_at"], row["expires_at"], reads
    return found


def role(chance: random.Random) -> Role:
    return chance.choice(ROLES)


HANDLERS: dict[str, Draw] = {
    "create_team": lambda c, _, s: teams.create_team(s, c.choice(TEAMS), "New", seal=SEAL),
    "delete_team": lambda c, _, s: teams.delete_team(s, c.choice(TEAMS)),
    "rename_team": lambda c, _, s: teams.rename_team(s, c.choice(TEAMS), c.choice(["Kottos", "New"])),
    "rotate_team": lambda c, _, s: teams.rotate_team(s, c.choice(TEAMS), seal=SEAL),
    "replace_workspaces": lambda c, _, s: teams.replace_workspaces(s, c.choice(TEAMS), some(c, WORKSPACES)),
    "create_user": lambda c, _, s: users.create_user(s, c.choice([*USERS, "new"])),
    "set_user_active": lambda c, _, s: users.set_user_active(s, c.choice(USERS), active=c.random() < 0.5),
    "create_library": lambda c, who, s: libraries.create_library(
        s, who, c.choice(LIBRARIES[-2:]), "e", c.choice([None, *WORKSPACES]), c.choice([None, *USERS])
    ),
    "rename_library": lambda c, who, s: libraries.rename_library(s, who, c.choice(LIBRARIES), "New"),
    "move_library": lambda c, who, s: libraries.move_library(
        s, who, c.choice(LIBRARIES), c.choice([None, *WORKSPACES])
    ),
    "delete_library": lambda c, who, s: libraries.delete_library(s, who, c.choice(LIBRARIES)),
    "grant_role": lambda c, who, s: memberships.grant_role(s, who, c.choice(LIBRARIES), c.choice(USERS), role(c)),
    "revoke_role": lambda c, who, s: memberships.revoke_role(s, who, c.choice(LIBRARIES), c.choice(USERS), role(c)),
    "create_token": lambda c, who, s: tokens.create_token(s, who, c.choice(USERS), "New", some(c, LIBRARIES), None),
    "replace_libraries": lambda c, who, s: tokens.replace_libraries(
        s, who, c.choice(TOKENS), c.sample(LIBRARIES, c.choice([0, 1]))
    ),
    "revoke_token": lambda c, who, s: tokens.revoke_token(s, who, c.choice(TOKENS)),
    "add_key": lambda c, _, s: keys.add_key(
        s, c.choice(["team", "turn"]), "EdDSA", current=c.random() < 0.5, seal=SEAL
    ),
    "make_current": lambda c, _, s: keys.make_current(s, c.choice(KIDS)),
    "retire_key": lambda c, _, s: keys.retire_key(s, c.choice(KIDS)),
    "reseal_keys": lambda _c, _, s: keys.reseal_keys(s, seal=SEAL),
    "ensure_current_key": lambda c, _, s: keys.ensure_current_key(s, c.choice(["HS256", "EdDSA"]), seal=SEAL),
}


async def test_every_look_up_that_a_handler_changes_is_in_its_decision(postgres: PostgresServer) -> None:
    assert set(HANDLERS) == set(CASES) | UNSEEN
    engine = open_engine(await postgres.new_database(like="model"), pool=1, service="tests")
    effective = Counter[str]()
    for seed in SEEDS:
        chance = random.Random(seed)
        async with engine.connect() as connection:
            await connection.begin()
            async with a_session(connection) as session:
                for rows in random_state(chance):
                    session.add_all(rows)
                    await session.flush()
                await session.commit()
            before = await look_ups(connection)
            for name in [name for name in HANDLERS for _ in range(DRAWS)]:
                who = Who("admin", "a correlation", chance.choice([None, None, *USERS]))
                async with a_session(connection) as session:
                    with suppress(PallasError):
                        decision = await HANDLERS[name](chance, who, session)
                        await session.flush()
                        after = await look_ups(connection)
                        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
                        # Nobody can have looked up a token or key that was just made.
                        changed -= {key for key in after.keys() - before.keys() if key[0] != "team"}
                        effective[name] += bool(changed)
                        assert changed <= {(key.kind, key.id) for key in decision.keys}, (seed, name)
                    await session.rollback()
    await engine.dispose()
    assert {name for name in HANDLERS if effective[name]} == set(CASES), "each handler changed a look-up at least once"


def a_session(connection: AsyncConnection) -> AsyncSession:
    """A session in the connection's transaction, which is never committed."""
    return AsyncSession(connection, join_transaction_mode="create_savepoint", expire_on_commit=False)
