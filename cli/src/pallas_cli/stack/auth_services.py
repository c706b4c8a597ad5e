"""The services of the auth side, with a database for each that has one, and the hashes of its accounts' passwords."""

import asyncio
from collections.abc import Collection, Mapping

from pallas_cli.processes.launch import ProcessSpec
from pallas_cli.stack.data import kept_secret
from pallas_cli.stack.databases import database_url, ensure_database
from pallas_cli.stack.plan import AuthSide, Plan
from pallas_cli.stack.service_spec import BROKER, TOOLS, service

_SERVERS = BROKER | {"redis-server", "postgres"}


def auth_specs(plan: Plan, *, behind: Collection[str]) -> list[ProcessSpec]:
    """Return them, or nothing when they are left out. They start once the processes named in `behind` can be used.

    Agents call the library search in their turns, so all of this outlives the services of agents.
    """
    auth = plan.auth
    if auth is None:
        return []

    async def told_lifecycle() -> Mapping[str, str]:
        return {
            "PALLAS_POSTGRES_URL": await _database(plan, auth, "team-lifecycle"),
            "PALLAS_REDIS_URL": auth.redis_url,
            "PALLAS_SERVICE_PASSWORD_HASH": await _hash(auth.accounts.service_password),
            "PALLAS_ADMIN_PASSWORD_HASH": await _hash(auth.accounts.admin_password),
            "PALLAS_FERNET_KEYS": auth.accounts.fernet_keys,
        }

    async def told_search() -> Mapping[str, str]:
        return {
            "PALLAS_POSTGRES_URL": await _database(plan, auth, "library-search"),
            "PALLAS_ADMIN_PASSWORD_HASH": await _hash(auth.accounts.admin_password),
        }

    async def told_resolver() -> Mapping[str, str]:
        return {"PALLAS_FERNET_KEYS": auth.accounts.fernet_keys, "PALLAS_REDIS_URL": auth.redis_url}

    needs = _SERVERS | frozenset(behind)
    return [
        service(plan, "library-search", told_search, port=auth.library_search_port, stage=TOOLS, needs=needs),
        service(plan, "auth-resolver", told_resolver, stage=TOOLS, needs=needs),
        service(plan, "team-lifecycle", told_lifecycle, port=auth.team_lifecycle_port, stage=TOOLS, needs=needs),
    ]


async def _database(plan: Plan, auth: AuthSide, service: str) -> str:
    """The address of a service's own database, which is there from now on.

    On this stack's Postgres the service has a role of its own, elsewhere the one that the user's address names.
    """
    name = service.replace("-", "_")
    password = kept_secret(plan.data, f"{service}-postgres-password") if plan.postgres is not None else None
    await ensure_database(auth.postgres_url, name, password)
    return database_url(auth.postgres_url, name, password)


async def _hash(password: str) -> str:
    from argon2 import PasswordHasher

    return await asyncio.to_thread(PasswordHasher().hash, password)
