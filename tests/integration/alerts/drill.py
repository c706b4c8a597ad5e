"""`python -m tests.integration.alerts.drill`: kills parts of a platform, and prints which alert fired after how long.

By hand, since it takes ten minutes, in which the machine has little to do. Prometheus and Alertmanager have the
project's files and the times of production. The result is a table in docs/operations.md.
"""

import asyncio
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import httpx
from tests.integration.alerts.watch import World as Watch
from tests.integration.alerts.watch import watching
from tests.postgres import PostgresServer
from tests.upgrade.load import Load
from tests.upgrade.world import NEW, World, a_world

PARTS = ("agent-gateway", "agent-worker", "auth-resolver", "health-monitor", "registry", "team-lifecycle")
"""What runs; the other services only seem to be up."""

_LONGEST = 300.0
_LOOK = 0.5


async def main(folder: Path, postgres: PostgresServer) -> None:
    """Three drills, one after the other."""
    waiting: list[asyncio.Future[str]] = []
    async with a_world(folder, postgres, (NEW,)) as platform:
        await platform.add(NEW, *PARTS)

        async def metrics(job: str) -> str | None:
            if job not in PARTS:
                return "pallas_ready 1\n" if job == "workspaces" else ""
            with suppress(httpx.TransportError, IndexError):
                return (await platform.http.get(f"{platform.bases(job)[0]}/metrics", timeout=5)).text
            return None

        async with watching(folder, metrics, quick=False) as watch:
            await drill(
                watch,
                "registry, Redis, and the only worker while calls wait",
                lambda: without_a_worker(platform, waiting),
                {"PallasServiceDown", "PallasRedisAway", "PallasAgentWithoutWorker"},
            )
            await drill(
                watch,
                "Postgres, and the only gateway",
                lambda: without_a_gateway(platform, postgres, waiting),
                {"PallasPostgresAway", "PallasGatewayDown"},
            )
            await platform.add(NEW, "agent-gateway", "agent-worker", "registry")
            await asyncio.to_thread(postgres.start)
            await drill(watch, "the only broker", lambda: without_a_broker(platform), {"PallasBrokerLost"})


async def drill(watch: Watch, what: str, break_it: Callable[[], Awaitable[None]], expected: set[str]) -> None:
    """Break something, and print when the expected alerts have fired and were sent, and what was silent."""
    watch.told.clear()
    await break_it()
    began, fired, sent = time.monotonic(), dict[str, float](), dict[str, float]()
    while not sent.keys() >= expected and (now := time.monotonic() - began) < _LONGEST:
        for name in await watch.firing():
            fired.setdefault(name, now)
        for notification in (each for told in watch.told.values() for each in told):
            sent.setdefault(notification["groupLabels"]["alertname"], now)
        await asyncio.sleep(_LOOK)
    silent = sorted(fired.keys() - sent.keys())
    for name in sorted(fired, key=lambda name: fired[name]):
        told = f"{sent[name]:.0f} s" if name in sent else "-"
        print(f"| {what} | {name} | {fired[name]:.0f} s | {told} |", flush=True)
    print(f"silent: {silent}; missing: {sorted(expected - sent.keys())}", flush=True)


async def without_a_worker(platform: World, waiting: list["asyncio.Future[str]"]) -> None:
    """Kill the worker, then let calls wait; kill the registry and Redis as well."""
    for name in ("agent-worker", "registry"):
        platform.running[name].pop().send(signal.SIGKILL)
    load = Load(platform)
    waiting += [asyncio.ensure_future(load.call("note", f"waits-{number}")) for number in range(3)]
    platform.redis.kill9()


async def without_a_gateway(platform: World, postgres: PostgresServer, waiting: list["asyncio.Future[str]"]) -> None:
    """Kill both."""
    for call in waiting:
        call.cancel()
    platform.running["agent-gateway"].pop().send(signal.SIGKILL)
    postgres.kill9()


async def without_a_broker(platform: World) -> None:
    """Kill it."""
    platform.servers["nats-server"].kill()


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp(prefix="pallas-drill-"))
    with PostgresServer(place / "postgres") as server:
        asyncio.run(main(place, server))
