"""A connection that the broker ends is not reopened, so the process of every service ends and is restarted."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.embedded import NatsServer
from tests.link import linked
from tests.waiting import soon

import agent_gateway.app
import agent_gateway.settings
import agent_worker.app
import agent_worker.settings
import health_monitor.app
import health_monitor.settings
import registry.app
import registry.settings
from pallas_runtime.probes import Probes
from pallas_runtime.process import Process
from pallas_runtime.settings import Settings

SERVICES: dict[str, tuple[Callable[[Any, Process], AbstractAsyncContextManager[Any]], type[Settings]]] = {
    "agent-gateway": (agent_gateway.app.build, agent_gateway.settings.GatewaySettings),
    "agent-worker": (agent_worker.app.build, agent_worker.settings.WorkerSettings),
    "health-monitor": (health_monitor.app.build, health_monitor.settings.MonitorSettings),
    "registry": (registry.app.build, registry.settings.RegistrySettings),
}

ENDED = b"-ERR 'Maximum Payload Violation'\r\n"


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_fails_and_closes_everything_when_the_broker_ends_its_connection(
    service: str, nats_server: NatsServer
) -> None:
    # A broker of its own: on a busy line the word of the end could stand in the middle of another one.
    url = nats_server.url
    async with linked(url) as link, agent_gateway.app.build(*given("agent-gateway", url)):
        settings, process = given(service, link.url)
        async with asyncio.timeout(20), SERVICES[service][0](settings, process) as made:
            assert not process.failed.is_set()
            link.say(ENDED)
            await soon(process.failed.wait())
            await soon(made.drain())


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_that_ends_on_a_signal_has_not_failed(service: str, nats_url: str) -> None:
    async with agent_gateway.app.build(*given("agent-gateway", nats_url)):
        settings, process = given(service, nats_url)
        async with SERVICES[service][0](settings, process):
            pass
        assert not process.failed.is_set()


def given(service: str, url: str) -> tuple[Any, Process]:
    """The settings and the process of a service on that broker."""
    settings = SERVICES[service][1].from_env({"PALLAS_NATS_URL": url, "PALLAS_AGENT_PORTS": "false"})
    return settings, Process(service, f"{service}-{uuid.uuid4().hex[:8]}", 0, Probes())
