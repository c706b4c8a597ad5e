"""The auth services, with their databases and the password hashes of their accounts."""

import asyncio
from collections.abc import Collection, Mapping

from pallas_cli.processes.launch import ProcessSpec
from pallas_cli.stack.data import kept_secret
from pallas_cli.stack.databases import database_url, ensure_database
from pallas_cli.stack.plan import AuthSide, Plan
from pallas_cli.stack.service_spec import BROKER, TOOLS, service

_SERVERS = BROKER | {"redis-server", "postgres"}


def auth_specs(plan: Plan, *, behind: Collection[str]) -> list[ProcessSpec]:
    """Return the auth services, or nothing with `--no-auth`. They start when the processes named in `behind` are ready.

    Agents call library-search in their turns, so the auth services stop after the services of agents.
    """
    auth = plan.auth
    if auth is None:
        return []

    async def lifecycle_variables() -> Mapping[str, str]:
        return {
            "PALLAS_POSTGRES_URL": await _database(plan, auth, "team-lifecycle"),
            "PALLAS_REDIS_URL": auth.redis_url,
            "PALLAS_SERVICE_PASSWORD_HASH": await _hash(auth.accounts.service_password),
            "PALLAS_ADMIN_PASSWORD_HASH": await _hash(auth.accounts.admin_password),
            "PALLAS_FERNET_KEYS": auth.accounts.fernet_keys,
        }

    async def search_variables() -> Mapping[str, str]:
        return {
            "PALLAS_POSTGRES_URL": await _database(plan, auth, "library-search"),
            "PALLAS_ADMIN_PASSWORD_HASH": await _hash(auth.accounts.admin_password),
        }

    async def resolver_variables() -> Mapping[str, str]:
        return {"PALLAS_FERNET_KEYS": auth.accounts.fernet_keys, "PALLAS_REDIS_URL": auth.redis_url}

    needs = _SERVERS | frozenset(behind)
    return [
        service(plan, "library-search", search_variables, port=auth.library_search_port, stage=TOOLS, needs=needs),
        service(plan, "auth-resolver", resolver_variables, stage=TOOLS, needs=needs),
        service(plan, "team-lifecycle", lifecycle_variables, port=auth.team_lifecycle_port, stage=TOOLS, needs=needs),
    ]


async def _database(plan: Plan, auth: AuthSide, service: str) -> str:
    """Create a service's database unless it exists, and return its address.

    On this stack's Postgres the service has its own role; elsewhere it uses the role of the configured address.
    """
    name = service.replace("-", "_")
    password = kept_secret(plan.data, f"{service}-postgres-password") if plan.postgres is not None else None
    await ensure_database(auth.postgres_url, name, password)
    return database_url(auth.postgres_url, name, password)


async def _hash(password: str) -> str:
    from argon2 import PasswordHasher

    return await asyncio.to_thread(PasswordHasher().hash, password)
