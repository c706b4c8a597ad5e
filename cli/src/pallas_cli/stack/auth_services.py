"""The auth services and the console, with their databases and the password hashes of their accounts."""

import asyncio
import hmac
import os
from collections.abc import Collection, Mapping

from pallas_cli.processes.launch import ProcessSpec
from pallas_cli.stack.data import kept_secret
from pallas_cli.stack.databases import database_url, ensure_database
from pallas_cli.stack.plan import AuthSide, Plan
from pallas_cli.stack.service_spec import BROKER, TOOLS, service

_OF_THE_CONSOLE = (
    "MNEMOSYNE_FERNET_KEY",
    "MNEMOSYNE_FERNET_KEY_FILE",
    "PALLAS_FERNET_KEY",
    "PALLAS_FERNET_KEY_FILE",
    "PALLAS_AGENT_TOKEN",
    "PALLAS_AGENT_TOKEN_FILE",
    "DAEDALUS_MCP_HEALTH_INTERVAL",
    "DAEDALUS_RECONCILE_INTERVAL",
)
"""Variables that only the console inherits."""

_SERVERS = BROKER | {"redis-server", "postgres"}


def auth_specs(plan: Plan, *, behind: Collection[str]) -> list[ProcessSpec]:
    """Return the auth services, or nothing with `--no-auth`. They start when the processes named in `behind` are ready.

    Agents call library-search in their turns, so the auth services stop after the services of agents.
    """
    auth = plan.auth
    if auth is None:
        return []
    hashes = _Hashes(auth.accounts.secret_key)

    async def lifecycle_variables() -> Mapping[str, str]:
        return {
            "PALLAS_POSTGRES_URL": await _database(plan, auth, "team-lifecycle"),
            "PALLAS_REDIS_URL": auth.redis_url,
            "PALLAS_SERVICE_PASSWORD_HASH": await hashes.of(auth.accounts.service_password),
            "PALLAS_ADMIN_PASSWORD_HASH": await hashes.of(auth.accounts.admin_password),
            "PALLAS_FERNET_KEYS": auth.accounts.fernet_keys,
        }

    async def search_variables() -> Mapping[str, str]:
        return {
            "PALLAS_POSTGRES_URL": await _database(plan, auth, "library-search"),
            "PALLAS_ADMIN_PASSWORD_HASH": await hashes.of(auth.accounts.admin_password),
        }

    async def resolver_variables() -> Mapping[str, str]:
        return {"PALLAS_FERNET_KEYS": auth.accounts.fernet_keys, "PALLAS_REDIS_URL": auth.redis_url}

    async def console_variables() -> Mapping[str, str]:
        return {
            **{name: os.environ[name] for name in _OF_THE_CONSOLE if name in os.environ},
            "PALLAS_POSTGRES_URL": await _database(plan, auth, "workspaces"),
            "PALLAS_ADMIN_PASSWORD_HASH": await hashes.of(auth.accounts.admin_password),
            "PALLAS_SECRET_KEY": auth.accounts.secret_key,
            "PALLAS_PUBLIC_URL": auth.workspaces_url,
            "PALLAS_TEAMS_URL": auth.team_lifecycle_url,
            "PALLAS_TEAMS_PASSWORD": auth.accounts.service_password,
            "PALLAS_LIBRARY_URL": f"{auth.library_search_url}/mcp",
            "PALLAS_LIBRARY_SERVER": "library-search",
            "PALLAS_OWN_REGISTRIES": plan.registry_url,
        }

    needs = _SERVERS | frozenset(behind)
    console = service(plan, "workspaces", console_variables, port=auth.workspaces_port, stage=TOOLS, needs=needs)
    return [
        console,
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


class _Hashes:
    """Hashes of passwords. One takes 0.1 s, so the services of an account get the same one.

    The salt follows from the secret key and the password. So the hash is another one only if the password is, which
    ends the sessions at the console.
    """

    def __init__(self, secret_key: str) -> None:
        self._secret_key = secret_key.encode()
        self._made = dict[str, asyncio.Task[str]]()

    async def of(self, password: str) -> str:
        """The hash of a password."""
        if password not in self._made:
            self._made[password] = asyncio.create_task(asyncio.to_thread(self._argon2, password.encode()))
        return await asyncio.shield(self._made[password])

    def _argon2(self, password: bytes) -> str:
        from argon2 import PasswordHasher

        return PasswordHasher().hash(password, salt=hmac.digest(self._secret_key, password, "sha256")[:16])
