"""Many agents whose health is checked, and many instances that are compared with Mnemosyne."""

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from tests.bench.console.service import Service, a_service, until_told
from tests.bench.figures import percentile
from tests.bench.processes import running
from tests.integration.workspaces.chat.talk import reading_events
from tests.integration.workspaces.lab import API
from tests.postgres import PostgresServer
from tests.workspaces_world.mnemosyne import PASSWORD, Mnemosyne
from tests.workspaces_world.registry import Registry

from workspaces.live.hub import ALL, Hub
from workspaces.tables import PallasInstance

_INTERVAL = 60.0
_OF_AN_INSTANCE = 20
_WORKSPACES = 20
_POLLED_FOR = 5.0
_INSTANCES = """
    insert into pallas_instances (id, name, registry_url)
    select 'team' || n, 'Team ' || n, :base || '/teams/' || n from generate_series(1, :instances) n
"""
_ATTACHED = """
    insert into workspace_pallas_assignments (workspace_id, pallas_instance_id)
    select workspaces.id, pallas_instances.id from workspaces, pallas_instances
"""

type Report = Callable[[str], None]


async def measure_polls(folder: Path, postgres: PostgresServer, count: int, report: Report) -> dict[str, Any]:
    """Seconds of the first poll of so many agents, and of later ones, and how much of a core polls take."""
    report(f"{count} agents are polled")
    with running("many-agents", folder, "tests.bench.peers.many_agents", "{port}") as agents:
        agents.wait_for("asked")
        async with (
            a_service(folder, postgres) as service,
            reading_events(service.http, f"{API}/events", {}) as told,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{agents.port}", trust_env=False) as http,
        ):

            async def asked() -> tuple[int, float, float]:
                number: int = (await http.get("/asked")).json()
                return number, time.perf_counter(), service.process.cpu_seconds()

            began = await asked()
            await _know(service, agents.port, count)
            await told.events.until(lambda events: sum(event.kind == "health" for event in events) >= count)
            first = time.perf_counter() - began[1]
            wrong = sum(one["health"]["status"] != "ok" for one in told.of("health"))
            settings = (await service.http.get(f"{API}/settings")).json()
            changed = await service.http.put(f"{API}/settings", json={**settings, "health_interval": 1})
            changed.raise_for_status()
            await asyncio.sleep(2)  # the first round at another pace is spread over it
            before = await asked()
            await asyncio.sleep(_POLLED_FOR)
            after = await asked()
    checks, seconds, cpu = (this - that for this, that in zip(after, before, strict=True))
    return {
        "agents": count,
        "wrong": wrong,
        "first_s": first,
        "following_s": count * seconds / checks,
        "check_cpu_ms": 1000 * cpu / checks,
        "core_share": count / _INTERVAL * cpu / checks,
    }


async def _know(service: Service, port: int, count: int) -> None:
    """Register instances with so many agents."""
    async with AsyncSession(service.engine) as session:
        for first in range(0, count, _OF_AN_INSTANCE):
            listed = [
                {
                    "server_id": f"agent-{number}",
                    "name": f"ca.helu/agent-{number}",
                    "title": f"Agent {number}",
                    "url": f"http://127.0.0.1:{port}/agents/agent-{number}/mcp",
                }
                for number in range(first, min(first + _OF_AN_INSTANCE, count))
            ]
            instance = str(uuid.uuid4())
            row = PallasInstance(id=instance, name=f"Team {first}", registry_url=f"http://{instance}", agents=listed)
            session.add(row)
        await Hub.tell_in(session, ALL, "agents", {})
        await session.commit()


async def measure_attaching(
    folder: Path, postgres: PostgresServer, times: int, instances: int, report: Report
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Milliseconds from attaching to Mnemosyne's PUT, and seconds in which so many instances are compared with it."""
    async with AsyncExitStack() as stack:
        mnemosyne = await stack.enter_async_context(Mnemosyne())
        registry = await stack.enter_async_context(Registry())
        known = {"teams_url": mnemosyne.base, "teams_password": PASSWORD}
        report(f"a team is attached and detached, {times} times")
        async with a_service(folder, postgres, **known) as service:
            attaching = await _attach(service, mnemosyne, registry, times)
        report(f"{instances} instances are compared with Mnemosyne")
        async with a_service(folder, postgres, **known) as service:
            return attaching, await _reconcile(service, mnemosyne, registry, instances)


async def _attach(service: Service, mnemosyne: Mnemosyne, registry: Registry, times: int) -> dict[str, Any]:
    http, body = service.http, {"registry_url": f"{registry.base}/teams/one", "name": "Kottos"}
    instance = (await http.post(f"{API}/pallas", json=body)).raise_for_status().json()["id"]
    workspace = (await http.post(f"{API}/workspaces", json={"name": "A workspace"})).raise_for_status().json()["id"]
    await until_told(service)
    asked, saved = list[float](), list[float]()
    for number in range(times):
        attached = [instance] if number % 2 == 0 else []
        puts = mnemosyne.counted()["PUT"]

        async def arrival(before: int = puts) -> float:
            await mnemosyne.until(lambda _: mnemosyne.counted()["PUT"] > before)
            return time.perf_counter()

        arriving, since = asyncio.create_task(arrival()), time.perf_counter()
        answer = await http.put(f"{API}/workspaces/{workspace}/pallas", json={"instance_ids": attached})
        answer.raise_for_status()
        answered = time.perf_counter()
        arrived = await arriving
        asked.append(1000 * (arrived - since))
        saved.append(1000 * max(0.0, arrived - answered))
        await until_told(service)
    return {
        "times": times,
        "p50_ms": percentile(asked, 0.5),
        "p95_ms": percentile(asked, 0.95),
        "saved_p50_ms": percentile(saved, 0.5),
        "saved_p95_ms": percentile(saved, 0.95),
    }


async def _reconcile(service: Service, mnemosyne: Mnemosyne, registry: Registry, instances: int) -> dict[str, Any]:
    mnemosyne.teams.clear()
    async with service.engine.begin() as connection:
        await connection.execute(text(_INSTANCES), {"base": registry.base, "instances": instances})
        for number in range(_WORKSPACES):
            await connection.execute(text("insert into workspaces values (:id, :id)"), {"id": f"workspace-{number}"})
        await connection.execute(text(_ATTACHED))

    async def cycle() -> float:
        since = time.perf_counter()
        (await service.http.post(f"{API}/deliveries/reconcile")).raise_for_status()
        await until_told(service)
        return time.perf_counter() - since

    provisioned = await cycle()
    in_order = await cycle()
    for team in mnemosyne.teams.values():
        team.workspace_ids = []
    lost = await cycle()
    right = sum(len(team.workspace_ids) == _WORKSPACES for team in mnemosyne.teams.values())
    return {
        "instances": instances,
        "workspaces": _WORKSPACES,
        "right": right,
        "provisioned_s": provisioned,
        "in_order_s": in_order,
        "lost_s": lost,
    }
