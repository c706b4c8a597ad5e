"""The life of a process: settings, logs, probes, the service, a signal, drain, end.

Exit codes: 0 after a signal, 1 when the service failed, 2 when its settings are invalid or its port is not available.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from starlette.types import ASGIApp

from pallas_contracts.errors import PallasError, Rejected
from pallas_runtime.http.listener import bind, listening
from pallas_runtime.logs import configure_logs
from pallas_runtime.probes import Probes, with_probes
from pallas_runtime.process import Process
from pallas_runtime.settings import Settings
from pallas_runtime.telemetry import start_tracing

log = logging.getLogger(__name__)

_LAST_SECONDS = 1.0


class Served(Protocol):
    """What `build` yields: the HTTP application besides the probes, and how to drain. Its tasks are vital ones of the
    process, and what it needs to be ready are checks of the process's probes."""

    @property
    def http(self) -> ASGIApp | None:
        """The ASGI application, or None."""
        ...

    def drain(self) -> Coroutine[Any, Any, None]:
        """Accept no new work and finish the work in progress; it is cut off after `drain_seconds`."""
        ...


async def _nothing() -> None:
    """The HTTP server finishes the requests."""


@dataclass(frozen=True)
class Simple:
    """A service that has no more to do than to serve, and to drain."""

    http: ASGIApp | None = None
    drain: Callable[[], Coroutine[Any, Any, None]] = _nothing


type Build[S: Settings] = Callable[[S, Process], AbstractAsyncContextManager[Served]]


@dataclass(frozen=True)
class Service[S: Settings]:
    """A service: its name, its settings, and how it is built. Its application gets WebSockets only with `websockets`.

    Nothing happens when its modules are imported. All that a service has begins inside `build`, and ends with it.
    """

    name: str
    settings: type[S]
    build: Build[S]
    websockets: bool = False


def run[S: Settings](service: Service[S], environ: Mapping[str, str] = os.environ) -> NoReturn:
    """Run a service until SIGTERM or SIGINT, and exit."""
    sys.exit(_run(service, environ))


def _run[S: Settings](service: Service[S], environ: Mapping[str, str]) -> int:
    import uvloop

    name, build = service.name, service.build
    try:
        settings = service.settings.from_env(environ)
        listener = bind(settings.host, settings.port)
        instance = settings.instance or f"{name}-{uuid.uuid4().hex[:8]}"
        configure_logs(name, instance, settings.log_level, settings.log_format)
        stop_tracing = start_tracing(name, instance, environ, content=settings.trace_content)
    except Rejected as error:
        print(f"{name}: {error.message}", file=sys.stderr)  # noqa: T201 - there is no log yet
        return 2
    process = Process(name, instance, listener.getsockname()[1], Probes(revision=settings.revision))

    async def main() -> int:
        served: list[Served] = []
        app = with_probes(process.probes, lambda: served[0].http if served else None)
        bound, drain, sockets = settings.max_connections, settings.drain_seconds, service.websockets
        async with listening(app, listener, drain_seconds=drain, most_connections=bound, websockets=sockets):
            code = await _live(settings, process, build, served)
        if left := await _left():
            log.error("cancelled tasks do not end; the process exits without them", extra={"work": left})
            stop_tracing()
            os._exit(code)
        return code

    try:
        return uvloop.run(main())
    except Rejected as error:
        print(f"{name}: {error.message}", file=sys.stderr)  # noqa: T201 - for an operator at a terminal
        return 2
    except PallasError as error:
        log.error("the process cannot continue and ends", extra={"reason": error.message})
        return 1
    finally:
        stop_tracing()


async def _live[S: Settings](settings: S, process: Process, build: Build[S], served: list[Served]) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    building = asyncio.create_task(_build_and_wait(settings, process, build, served, stop))
    ended = asyncio.create_task(_first(stop.wait(), process.failed.wait()))
    await asyncio.wait({building, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not building.done() and not process.probes.started:
        building.cancel()
        await asyncio.wait({building})
        return 1 if process.failed.is_set() else 0
    ended.cancel()
    return await building


async def _build_and_wait[S: Settings](
    settings: S, process: Process, build: Build[S], served: list[Served], stop: asyncio.Event
) -> int:
    async with build(settings, process) as service:
        served.append(service)
        process.probes.started = True
        _spare_garbage_collection()
        log.info("started", extra={"port": process.port})
        await _first(stop.wait(), process.failed.wait())
        process.probes.draining = True
        log.info("draining", extra={"seconds": settings.drain_seconds})
        try:
            async with asyncio.timeout(settings.drain_seconds):
                await service.drain()
        except TimeoutError:
            log.warning("drain time exceeded; the remaining work is cut off")
    return 1 if process.failed.is_set() else 0


def _spare_garbage_collection() -> None:
    """Exclude the objects of the start from later collections, and collect less often: turns leave few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def _left() -> list[str]:
    """Cancel the remaining tasks; return the names of those that do not end."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    pending = (await asyncio.wait(rest, timeout=_LAST_SECONDS))[1] if rest else set[asyncio.Task[Any]]()
    return [task.get_name() for task in pending]


async def _first(*waits: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
