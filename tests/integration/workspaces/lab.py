"""The service as its process builds it, in the test's process, with a real Postgres."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx
from argon2 import PasswordHasher
from cryptography.fernet import Fernet
from tests.embedded import free_port
from tests.postgres import PostgresServer

from pallas_runtime.http.listener import bind, listening
from pallas_runtime.probes import Probes, with_probes
from pallas_runtime.process import Process
from workspaces.app import Workspaces, build
from workspaces.live.hub import Hub
from workspaces.settings import WorkspacesSettings

API = "/api/v1"
PASSWORD = "correct horse"
FERNET_KEY = Fernet.generate_key().decode()
_HASH = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
CONTENT = (
    "images", "messages", "conversations", "agent_connections", "workspace_pallas_assignments", "pallas_instances",
    "workspaces", "mnemosyne_teams", "settings", "login_links",
)  # fmt: skip
"""The tables to empty, in this order, for a service without content. Sessions and changes stay."""
JUST_RECONCILED = "insert into settings values ('last_reconcile', jsonb_build_object('at', now()))"
"""Without this row, the reconciler's timer would make a cycle in the middle of a test."""


def environment(**settings: str) -> dict[str, str]:
    """The variables of a service, for a process or for `WorkspacesSettings`. There is no broker unless one is named."""
    return {
        "PALLAS_ADMIN_PASSWORD_HASH": _HASH,
        "PALLAS_FERNET_KEY": FERNET_KEY,
        "PALLAS_DRAIN_SECONDS": "2",
        "PALLAS_NATS_URL": f"nats://127.0.0.1:{free_port()}",
        **{f"PALLAS_{name.upper()}": value for name, value in settings.items()},
    }


@dataclass(frozen=True)
class Lab:
    """A running service. `service.parts` are the parts that routes have.

    `browser` is logged in and sends its CSRF token, `command_line` uses HTTP Basic, `stranger` has no account.
    `settings` are those of `a_workspaces`, for replicas.
    """

    settings: dict[str, str]
    process: Process
    service: Workspaces
    base: str
    browser: httpx.AsyncClient
    command_line: httpx.AsyncClient
    stranger: httpx.AsyncClient

    def measured(self, metric: str, **labels: str) -> float:
        """The value of a metric."""
        return self.process.probes.metrics.get_sample_value(metric, labels) or 0.0


async def empty(postgres: PostgresServer, database: str) -> None:
    """Delete the content of a service's database. The next cycle of the reconciler is an interval away."""
    deletes = ";".join(f"delete from {table}" for table in CONTENT)
    await postgres.say(f"do $$ begin lock table settings; {deletes}; {JUST_RECONCILED}; end $$", database)


def client_of(base: str, auth: tuple[str, str] | None = None) -> httpx.AsyncClient:
    """A client of the service at `base`."""
    return httpx.AsyncClient(base_url=base, auth=auth, trust_env=False, verify=False, timeout=30)


def session_cookie(client: httpx.AsyncClient) -> tuple[str, str]:
    """Name and token of the cookie with which a client is logged in."""
    [(name, token)] = [each for each in client.cookies.items() if each[0].startswith("pallas_session")]
    return name, token


def headers_of(client: httpx.AsyncClient) -> str:
    """The headers with which a client is logged in, as they are sent."""
    name, token = session_cookie(client)
    host = client.base_url.netloc.decode()
    return f"host: {host}\r\ncookie: {name}={token}\r\nx-csrf-token: {client.headers['x-csrf-token']}\r\n"


async def log_in(client: httpx.AsyncClient, **credentials: str) -> httpx.Response:
    """Log a client in, by the password if nothing else is given. From then on it sends its CSRF token."""
    answer = await client.post(f"{API}/login", json=credentials or {"password": PASSWORD})
    if answer.status_code == 200:
        client.headers["x-csrf-token"] = answer.json()["csrf"]
    return answer


@asynccontextmanager
async def a_workspaces(**settings: str) -> AsyncGenerator[Lab]:
    """Run the service. `settings` are its variables without their prefix, `postgres_url` among them."""
    listener = bind("127.0.0.1", 0)
    process = Process("workspaces", f"workspaces-{uuid.uuid4().hex[:8]}", listener.getsockname()[1], Probes())
    base = f"http://127.0.0.1:{process.port}"
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        enter = stack.enter_async_context
        service = await enter(build(WorkspacesSettings.from_env(environment(**settings)), process))
        process.probes.started = True
        app = with_probes(process.probes, lambda: service.http)
        await enter(listening(app, listener, drain_seconds=1))
        stack.push_async_callback(service.drain)
        browser, stranger = await enter(client_of(base)), await enter(client_of(base))
        command_line = await enter(client_of(base, ("admin", PASSWORD)))
        own = "admin_password_hash" in settings  # the test's own password
        assert own or (await log_in(browser)).status_code == 200
        yield Lab(settings, process, service, base, browser, command_line, stranger)
        assert not process.failed.is_set(), "a vital task has ended"


@asynccontextmanager
async def a_hub(url: str) -> AsyncGenerator[Hub]:
    """A hub that hears the others."""
    hub = Hub(url)
    running = asyncio.create_task(hub.run())
    try:
        async with asyncio.timeout(10):
            await hub.heard()
        yield hub
    finally:
        running.cancel()
        await asyncio.wait({running})
