"""`/livez`, `/readyz` and `/metrics`, in front of the application of a process.

A process serves them from its start on. It is live while it waits for the broker, and ready only when everything it
needs is there and it is not draining.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from pallas_contracts.errors import Unavailable

_PACKAGE = "pallas-runtime"
"""All packages of Pallas have one version."""


def _registry() -> CollectorRegistry:
    disable_created_metrics()  # a second series for each one, which Prometheus does not use
    registry = CollectorRegistry(auto_describe=True)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


@dataclass
class Probes:
    """The state of a process. `checks` maps a name to a function that returns None or what is missing.

    `notes` are the same for what an operator should know of a process that is ready: `/readyz` shows them.
    `starting` is the reason of `/readyz` until the process has `started`. `revision` is the commit that it was built
    from. `json_metrics`: the application answers
    `/metrics` itself, unless the `Accept` header asks for text. `text` of the metrics is of a process whose work is
    done by others.
    """

    metrics: CollectorRegistry = field(default_factory=_registry)
    checks: dict[str, Callable[[], str | None]] = field(default_factory=dict[str, Callable[[], str | None]])
    notes: dict[str, Callable[[], str | None]] = field(default_factory=dict[str, Callable[[], str | None]])
    starting: str = "starting"
    started: bool = False
    draining: bool = False
    json_metrics: bool = False
    revision: str = "unknown"
    text: Callable[[], Awaitable[bytes]] | None = None

    def __post_init__(self) -> None:
        ready = Gauge("pallas_ready", "1 when the process can do its work, as /readyz says", registry=self.metrics)
        ready.set_function(lambda: not self.missing())
        built = Gauge(
            "pallas_build_info", "1; the labels say what runs", ["version", "revision"], registry=self.metrics
        )
        built.labels(version(_PACKAGE), self.revision).set(1)

    def noted(self) -> dict[str, str]:
        """What an operator should know although the process is ready."""
        return _answers(self.notes)

    def missing(self) -> dict[str, str]:
        """Why the process is not ready: empty when it is."""
        if self.draining:
            return {"process": "draining"}
        if not self.started:
            return {"process": self.starting}
        return _answers(self.checks)


def _answers(checks: Mapping[str, Callable[[], str | None]]) -> dict[str, str]:
    answers = {name: check() for name, check in checks.items()}
    return {name: answer for name, answer in answers.items() if answer is not None}


def with_probes(probes: Probes, inner: Callable[[], ASGIApp | None]) -> ASGIApp:
    """Serve the probes, and everything else with `inner()` once there is one (503 before)."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and (served := inner()) is not None:
            await served(scope, receive, send)
        elif scope["type"] == "websocket":
            await _answer(send, 503, b'{"error":"starting"}', "application/json", kind="websocket.http")
        if scope["type"] != "http":
            return
        match scope["path"]:
            case "/livez":
                await _answer(send, 200, b'{"status":"ok"}', "application/json")
            case "/readyz":
                missing = probes.missing()
                body = {"status": "not ready", "missing": missing} if missing else {"status": "ok"}
                body |= {"notes": notes} if (notes := probes.noted()) else {}
                await _answer(send, 503 if missing else 200, json.dumps(body).encode(), "application/json")
            case "/metrics" if not probes.json_metrics or _wants_text(scope):
                text = generate_latest(probes.metrics) if probes.text is None else await probes.text()
                await _answer(send, 200, text, CONTENT_TYPE_LATEST)
            case _ if (served := inner()) is not None:
                await served(scope, receive, send)
            case _ if probes.started:
                await _answer(send, 404, b'{"error":"not found"}', "application/json")
            case _:
                await _answer(send, 503, b'{"error":"starting"}', "application/json")

    return app


def _wants_text(scope: Scope) -> bool:
    accepted = Headers(scope=scope).get("accept", "")
    return "text/plain" in accepted or "openmetrics" in accepted


async def _answer(send: Send, status: int, body: bytes, content_type: str, *, kind: str = "http") -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": f"{kind}.response.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body})


INTERVAL = 1.0
NOT_CHECKED = "not checked yet"


@dataclass
class Readiness:
    """The dependencies by name, each with its check, which raises `Unavailable`."""

    checks: Mapping[str, Callable[[], Awaitable[None]]]
    _missing: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def missing(self, name: str) -> str | None:
        """What is wrong with a dependency, as of its last check; None if nothing."""
        return self._missing.get(name, NOT_CHECKED)

    async def check(self) -> None:
        """Check all dependencies once."""
        await asyncio.gather(*(self._check(name, check) for name, check in self.checks.items()))

    async def keep_checking(self) -> None:
        """Check once a second, until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(INTERVAL)

    async def _check(self, name: str, check: Callable[[], Awaitable[None]]) -> None:
        try:
            await check()
        except Unavailable as error:
            self._missing[name] = error.message
        else:
            self._missing[name] = None
