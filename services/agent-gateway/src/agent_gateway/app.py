"""Builds the gateway: MCP for callers, turns on the bus."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mcp.server.request_state import RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus

from agent_gateway.caller import Callers
from agent_gateway.handshake.sessions import Sessions, cancel_call
from agent_gateway.http.dedicated_ports import DedicatedPorts, limits_of
from agent_gateway.http.routing import GatewayHttp
from agent_gateway.http.signatures import Signatures
from agent_gateway.mcp.endpoints import Endpoints
from agent_gateway.mcp.observers import Platform
from agent_gateway.mcp.request import bearer_owner
from agent_gateway.metrics import make_metrics
from agent_gateway.settings import GatewaySettings
from agent_gateway.signers import read_signers
from pallas_bus import kv
from pallas_bus.access import Access
from pallas_bus.ask import ask, watch_changes
from pallas_bus.connection import Bus, connect_when_possible
from pallas_bus.streams import declare, within
from pallas_contracts.agents import GatewayPresence
from pallas_contracts.catalog import (
    AGENTS,
    BUCKETS,
    DEAD_LETTERS,
    GATEWAY,
    GATEWAYS,
    HEALTH,
    PRESENCE_TTL,
    RESOLVE,
    SESSIONS,
    STREAMS,
    TURN_LOG,
    TURN_OBJECTS,
    WORKERS,
)
from pallas_contracts.contract import Bucket, Stream
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_runtime.http.senders import accepted_hosts
from pallas_runtime.process import STORED, Process
from pallas_runtime.run import Service
from pallas_runtime.settings import log_key_of
from pallas_turns.calls import Calls, make_calls
from pallas_turns.expiry import expire_content

log = logging.getLogger(__name__)

OWNED = tuple(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY)
"""Streams and buckets that the gateway declares: it always runs, while other services may be scaled to zero."""

EVENTS = frozenset({TURN_LOG.name, DEAD_LETTERS.name})
"""The streams that are kept for `PALLAS_EVENT_DAYS`; content in them expires earlier."""

_DAY = 86_400


@dataclass
class Gateway:
    """A running gateway."""

    http: GatewayHttp
    calls: Calls

    async def drain(self) -> None:
        """Wait for the calls to end. Streams that this gateway closes from now on cancel no turns."""
        self.calls.draining = True
        # Without a broker no turn's end can arrive here.
        wait = 0 if self.calls.bus.closed.is_set() else None
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self.http.finish()


@asynccontextmanager
async def build(settings: GatewaySettings, process: Process) -> AsyncGenerator[Gateway]:
    """Connect, follow the catalogue and serve its agents."""
    _keep_streams_on_sigterm()
    access = Access.of(settings)
    async with (
        connect_when_possible(access, GATEWAY, instance=process.instance) as bus,
        process.uses(bus),
    ):
        await declare(bus, *_owned(settings), replicas=settings.stream_replicas)
        async with (
            AsyncExitStack() as stack,
            kv.watch(bus, AGENTS) as catalogue,
            kv.watch(bus, HEALTH) as healths,
            kv.watch(bus, SESSIONS) as sessions,
            kv.watch(bus, GATEWAYS) as gateways,
            kv.watch(bus, WORKERS) as presences,
        ):
            process.probes.checks["catalogue"] = lambda: None if catalogue.synced.is_set() else "not read yet"
            metrics = make_metrics(process.probes.metrics)
            catalogue.on_change(metrics.calls.agents.changed)
            alone = settings.live_turns == "own"
            store = partial(make_calls, store_bytes=settings.store_bytes, team_share=settings.team_store_share)
            calls = await stack.enter_async_context(store(bus, gateways, presences, metrics.calls, alone=alone))
            process.probes.checks[STORED] = calls.leaders.missing
            process.vital(calls.liveness.keeping)
            process.probes.checks["budgets"] = calls.admission.budgets.missing
            key = log_key_of(settings.log_key, "idempotency keys and event ids are valid only at this replica")
            platform = Platform(bus, calls, healths, Sessions(bus, sessions), key)
            endpoints = Endpoints(
                platform, _security(settings), _state_security(settings), settings.max_body_bytes, bus.spawn
            )
            catalogue.on_change(endpoints.changed)
            await stack.enter_async_context(watch_changes(bus, endpoints.resource_changed))
            stack.callback(bus.on_reconnect(endpoints.changes_missed))
            callers = Callers(settings.gateway_auth, partial(ask, bus, RESOLVE), metrics.auth_failures, metrics)
            signatures = Signatures(read_signers(settings.signers) if settings.signers else {}, settings.public_url)
            http = GatewayHttp(
                endpoints, callers, partial(cancel_call, bus), metrics, settings.trusted_proxies, signatures
            )
            limits = limits_of(settings)
            ports = DedicatedPorts(catalogue, http.dedicated_app, settings.host, settings.drain_seconds, limits)
            background = [
                process.vital(bus.spawn(_publish_presence(bus, settings, process, ports))),
                process.vital(bus.spawn(expire_content(bus))),
            ]
            if settings.agent_ports:
                background.append(process.vital(bus.spawn(ports.keep())))
            try:
                yield Gateway(http, calls)
            finally:
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)
                with suppress(PallasError):  # the entry expires by itself
                    await kv.delete(bus, GATEWAYS, gateway=bus.instance)


def _owned(settings: GatewaySettings) -> list[Stream | Bucket[Any]]:
    """The streams and buckets that this service declares, with the retention and the limits of the settings."""
    days = dict.fromkeys(EVENTS, settings.event_days)
    days[TURN_OBJECTS.name] = 1 + settings.event_days  # a turn may wait and run before its content counts
    return [
        replace(thing, max_age=days[thing.name] * _DAY)
        if isinstance(thing, Stream) and thing.name in days
        else within(settings.store_bytes, thing)
        for thing in OWNED
    ]


async def _publish_presence(bus: Bus, settings: GatewaySettings, process: Process, ports: DedicatedPorts) -> None:
    """Publish this gateway's presence and the ports it has bound: on each change, and three times per time to live."""
    url = settings.public_url or f"http://{settings.host}:{process.port}"
    while True:
        presence = GatewayPresence(
            gateway=bus.instance,
            url=url,
            host=settings.host,
            ports=dict(ports.bound),
            at=utc_now(),
        )
        await kv.put_nowait(bus, GATEWAYS, presence, gateway=bus.instance)
        with suppress(TimeoutError):
            async with asyncio.timeout(PRESENCE_TTL / 3):
                await ports.rebound.wait()
        ports.rebound.clear()


def _security(settings: GatewaySettings) -> TransportSecuritySettings:
    accepted = accepted_hosts(settings.public_url, settings.allowed_hosts, settings.allowed_origins)
    if accepted is None:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=accepted.hosts, allowed_origins=accepted.origins
    )


def _state_security(settings: GatewaySettings) -> RequestStateSecurity:
    if settings.request_state_key is None:
        log.info("no PALLAS_REQUEST_STATE_KEY: answers to a tool's questions must be sent to this replica")
        return RequestStateSecurity(keys=[secrets.token_bytes(32)], bind_principal=bearer_owner)
    return RequestStateSecurity(keys=[settings.request_state_key.get_secret_value()], bind_principal=bearer_owner)


def _keep_streams_on_sigterm() -> None:
    """Let event streams end with their calls: by default sse-starlette cuts them off at the signal."""
    AppStatus.disable_automatic_graceful_drain()


SERVICE = Service("agent-gateway", GatewaySettings, build)
