"""Checks of the broker: whether it answers, who we are there, its streams, and what the agents on it need."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pallas_cli.doctor.checks import Finding, left_out, ok, warning, wrong
from pallas_cli.refused import Refused

if TYPE_CHECKING:
    from pallas_bus.connection import Bus

_SECONDS = 3.0
_PORT = 4222
_LEAST = (2, 12)


async def greeting(url: str) -> dict[str, Any] | None:
    """What the first server that answers says of itself before anybody has logged in."""
    for each in url.split(","):
        parts = urlsplit(each.strip())
        with suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port or _PORT)
                try:
                    line = await reader.readline()
                finally:
                    writer.close()
            return json.loads(line.removeprefix(b"INFO "))
    return None


async def check_broker(url: str, data: Path) -> AsyncIterator[Finding]:
    """All checks; the later ones only if the earlier ones are right."""
    said = await greeting(url)
    if said is None:
        yield wrong("broker", f"nothing answers at {url}", "start the platform (pallas up), or name another (--nats)")
        return
    for finding in _server(url, said):
        yield finding
        if finding.state == "wrong":
            return
    from pallas_cli.broker import access_to, platform

    try:
        async with platform(access_to(url, data)) as bus:
            yield ok("broker login", "accepted")
            async for finding in _contents(bus):
                yield finding
    except Refused as refusal:
        yield wrong("broker login", str(refusal), "pass the right --data, or set PALLAS_NATS_SEED_FILE")


def _server(url: str, said: dict[str, Any]) -> list[Finding]:
    version = str(said.get("version"))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    where = f"NATS {version} at {url}"
    if not said.get("jetstream"):
        return [wrong("broker", f"{where} has no JetStream", "start nats-server with JetStream, see deploy/nats.conf")]
    if numbers < _LEAST:
        return [wrong("broker", f"{where} is too old", f"use {'.'.join(map(str, _LEAST))} or later")]
    return [ok("broker", f"{where}, with JetStream")]


async def _contents(bus: "Bus") -> AsyncIterator[Finding]:
    from pallas_bus import kv
    from pallas_bus.streams import stream_name
    from pallas_contracts.catalog import AGENTS, BUCKETS, HEALTH, STREAMS, WORKERS
    from pallas_contracts.errors import PallasError

    try:
        names = set(await _streams(bus))
        missing = sorted({stream_name(each) for each in (*STREAMS, *BUCKETS)} - names)
        if missing:
            said = f"missing: {', '.join(missing)}"
            yield warning("streams", said, "each is made by the service that owns it: start that (docs/contracts.md)")
        else:
            yield ok("streams", f"all {len(STREAMS)} streams and {len(BUCKETS)} buckets are there")
        if stream_name(AGENTS) in missing:
            return
        agents, workers = await kv.snapshot(bus, AGENTS), await kv.snapshot(bus, WORKERS)
        health = await kv.snapshot(bus, HEALTH)
    except PallasError as error:
        yield wrong("streams", error.message, "look at the broker's log")
        return
    yield _workers(len(workers))
    hosted = {key for presence in workers.values() for key in presence.agents}
    ill = [f"{_name(key)} ({each.message or each.status})" for key, each in sorted(health.items()) if _is_ill(each)]
    alone = [_name(key) for key in sorted(agents) if key not in hosted and not _hosts_itself(key)]
    yield _agents(len(agents), ill, alone)


async def _streams(bus: "Bus") -> list[str]:
    names: list[str] = []
    while True:
        page = await bus.api("STREAM.NAMES", {"offset": len(names)})
        names += page.get("streams") or []
        if len(names) >= page.get("total", 0):
            return names


def _workers(count: int) -> Finding:
    if count:
        return ok("workers", f"processes that execute turns: {count}")
    return warning("workers", "none is there", "turns of team folders wait: start a worker, or `pallas up`")


def _name(key: str) -> str:
    """The agent as other commands name it: TEAM/NAME."""
    return key.replace(".", "/")


def _is_ill(health: Any) -> bool:
    return health.status == "error"


def _hosts_itself(key: str) -> bool:
    """Whether it is an agent of another service than a worker."""
    return key.partition(".")[0] in ("data", "pipelines", "fleet")


def _agents(count: int, ill: list[str], alone: list[str]) -> Finding:
    if not count:
        return left_out("agents", "there are none yet")
    if ill:
        return warning(
            "agents", f"not healthy: {', '.join(ill)}", "`pallas agents show AGENT` says what each depends on"
        )
    if alone:
        return warning(
            "agents", f"without a worker: {', '.join(alone)}", "start a worker, or `pallas agents retire TEAM`"
        )
    return ok("agents", f"{count}, none of them in error")
