"""The ASGI application: admits requests, and passes them on to their routes.

A part of a path may hold a percent-encoded slash, as names of pipelines do. So routing sees the path as it was sent.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.trace import SpanKind
from prometheus_client import Counter
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pallas_contracts.errors import PallasError
from pallas_contracts.turns import Principal
from pallas_runtime.front import of_caller
from pallas_runtime.http.bearers import Bearers
from pallas_runtime.http.bodies import TooLarge, UnderWay, read_body
from pallas_runtime.http.senders import AcceptedHosts, accepted_hosts
from pallas_runtime.logs import log_context
from pallas_runtime.probes import Probes
from pallas_runtime.telemetry import tracer
from pipelines.agent.tools import Handlers
from pipelines.http.answers import Refused, refusal, refused
from pipelines.http.executions import ExecutionRoutes
from pipelines.http.modules import ModuleRoutes, ProgramRoutes, public_answer
from pipelines.http.pipelines import PipelineRoutes
from pipelines.http.requests import NO_MARKS, Identities, Marks, Rates, Received, put_received, read_marks, received_of
from pipelines.http.runs import RunRoutes
from pipelines.http.turns import Turns
from pipelines.metrics import RequestMetrics
from pipelines.running.suspending import Suspensions
from pipelines.settings import PipelinesSettings
from pipelines.storing.scopes import Scopes

log = logging.getLogger(__name__)

LARGEST_BODY = 10 * 1024 * 1024
_EXECUTING = ("/run", "/execute", "/batch", "/invoke", "/resume")
_WORDS = {401: "Unauthorized", 404: "NotFound", 405: "MethodNotAllowed"}
_CUT_OFF_SECONDS = 1.0


@dataclass
class _Request:
    """One request: its headers, how it is answered, and when it began."""

    scope: Scope
    send: Send
    marks: Marks = NO_MARKS
    status: int = 0
    began: float = field(default_factory=time.perf_counter)

    @property
    def milliseconds(self) -> float:
        return round((time.perf_counter() - self.began) * 1000, 3)

    async def sending(self, message: Message) -> None:
        """Send a message of the answer, with the id of the request."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.marks.request_id is not None:
                MutableHeaders(scope=message)["x-request-id"] = self.marks.request_id
        await self.send(message)


class PipelinesHttp:
    """The ASGI application. `streams` are tasks that end with a drain, whatever their callers do."""

    def __init__(
        self,
        routes: Sequence[Route],
        identities: Identities,
        rates: Rates,
        hosts: AcceptedHosts | None,
        probes: Probes,
        metrics: RequestMetrics,
        streams: Collection[asyncio.Task[None]],
    ) -> None:
        self._routed = _routed(routes)
        self._identities = identities
        self._rates = rates
        self._hosts = hosts
        self._probes = probes
        self._metrics = metrics
        self._streams = streams
        self._under_way = UnderWay()
        self._tasks = set[asyncio.Task[object]]()
        self._cut = False

    async def finish(self) -> None:
        """Refuse new requests, end streams of events, and wait for the other requests.

        When this is cancelled, the requests that are still being served are cut off; their executions go on.
        """
        self._under_way.stopping = True
        for stream in self._streams:
            stream.cancel()
        try:
            await self._under_way.finish()
        finally:
            self._cut = True
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_CUT_OFF_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        if (known := self._public(scope)) is not None:
            await known(scope, receive, send)
            return
        task = asyncio.current_task()
        assert task is not None, "requests are served in tasks"
        request = _Request(scope, send)
        self._tasks.add(task)
        try:
            with self._under_way.serving(), of_caller(scope["headers"], None), _span(scope) as span:
                await self._serve(request, receive, span)
        except ClientDisconnect:
            log.debug("the caller has disconnected")
        except asyncio.CancelledError:
            if not self._cut:
                raise
            await _cut_off(request, receive)
        finally:
            self._tasks.discard(task)

    def _public(self, scope: Scope) -> Response | None:
        return public_answer(scope["path"], self._probes) if scope["method"] in ("GET", "HEAD") else None

    async def _serve(self, request: _Request, receive: Receive, span: trace.Span) -> None:
        scope = request.scope
        try:
            request.marks = marks = read_marks(Headers(scope=scope))
            said = {"constellation.agent": marks.agent, "constellation.request_id": marks.request_id}
            span.set_attributes({name: value for name, value in said.items() if value is not None})
            with log_context(client=marks.agent, request=marks.request_id):
                try:
                    await self._answer(request, receive)
                finally:
                    self._tell(request, span)
        except Refused as error:
            await refusal(error, None)(scope, receive, request.sending)
        finally:
            self._metrics.count(request.marks.agent, request.status)

    async def _answer(self, request: _Request, receive: Receive) -> None:
        scope = request.scope
        try:
            received = await self._admit(scope, receive, request.marks)
        except Refused as error:
            await refusal(error, request.marks.request_id)(scope, receive, request.sending)
            return
        scope["path"] = scope["raw_path"].decode("latin-1")
        put_received(Request(scope), received)
        await self._routed(scope, receive, request.sending)

    def _tell(self, request: _Request, span: trace.Span) -> None:
        """Write the line of a request to the log, and add how it was answered to its span."""
        route = request.scope.get("route")
        path = route.path if isinstance(route, Route) else ""
        span.set_attributes({"http.response.status_code": request.status, "http.route": path})
        facts = {"method": request.scope["method"], "route": path, "status": request.status}
        log.info("request", extra={**facts, "ms": request.milliseconds})

    async def _admit(self, scope: Scope, receive: Receive, marks: Marks) -> Received:
        """Check a request, and read its body.

        Raises:
            Refused: it is not admitted.
        """
        if self._under_way.stopping:
            raise Refused(503, "ShuttingDown", "The service is shutting down.", retry_after=1)
        if self._hosts and (wrong := self._hosts.refusal(Headers(scope=scope))) is not None:
            raise Refused(wrong.status_code, "Forbidden", bytes(wrong.body).decode())
        address = scope["client"][0] if scope.get("client") else "unknown"
        uses_up = scope["method"] == "POST" and scope["path"].endswith(_EXECUTING)
        try:
            found = await self._identities.identify(scope["headers"], address, marks.agent, uses_up=uses_up)
        except Refused:
            self._admit_rate(Principal(id=address), None)
            raise
        self._admit_rate(found.source, marks.agent)
        try:
            body = await read_body(scope, receive, LARGEST_BODY)
        except TooLarge as error:
            raise Refused(413, "PayloadTooLarge", f"{error.message[:1].upper()}{error.message[1:]}.") from None
        return Received(found.caller, marks, body)

    def _admit_rate(self, caller: Principal, agent: str | None) -> None:
        if (seconds := self._rates.admit(caller, agent)) is not None:
            message = f"Too many requests. Try again in {seconds} s."
            raise Refused(429, "RateLimitExceeded", message, retry_after=seconds)


def _routed(routes: Sequence[Route]) -> ASGIApp:
    """The routes; their errors are answered as the engine does."""

    async def on_refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return refusal(error, received_of(request).marks.request_id)

    async def on_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, PallasError)
        return await on_refused(request, refused(error))

    async def on_unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        word = _WORDS.get(error.status_code, "InvalidRequest")
        found = refusal(
            Refused(error.status_code, word, f"{error.detail}: {request.method} {request.scope['path'][:300]}"),
            received_of(request).marks.request_id,
        )
        found.headers.update(error.headers or {})
        return found

    async def on_failure(request: Request, error: Exception) -> Response:
        return await on_refused(request, Refused(500, "InternalError", "The service has failed."))

    handlers = {Refused: on_refused, PallasError: on_error, HTTPException: on_unrouted, Exception: on_failure}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


def _span(scope: Scope) -> AbstractContextManager[trace.Span]:
    about = {"http.request.method": scope["method"]}
    return tracer.start_as_current_span("serve", kind=SpanKind.SERVER, attributes=about)


async def _cut_off(request: _Request, receive: Receive) -> None:
    if request.status:
        await request.send({"type": "http.response.body", "body": b""})
        return
    stopped = Refused(503, "ShuttingDown", "The service stopped before the answer was there.", retry_after=1)
    await refusal(stopped, request.marks.request_id)(request.scope, receive, request.sending)


def make_http(
    settings: PipelinesSettings,
    probes: Probes,
    requests: Counter,
    scopes: Scopes,
    bearers: Bearers,
    handlers: Handlers,
    suspensions: Suspensions,
    turns: Turns,
) -> PipelinesHttp:
    """The application with all routes."""
    probes.json_metrics = True
    pipelines, views = handlers.pipelines, handlers.views
    executions = ExecutionRoutes(turns, suspensions, handlers.executions)
    return PipelinesHttp(
        [
            *ProgramRoutes(handlers.compiler, pipelines, views).routes(),
            *RunRoutes(handlers.compiler, pipelines.store, turns).routes(),
            *ModuleRoutes(handlers.modules).routes(),
            *PipelineRoutes(handlers.modules, pipelines, views).routes(),
            *executions.routes(),
        ],
        Identities(scopes, bearers),
        Rates(settings.pipeline_rate, settings.pipeline_burst),
        accepted_hosts(settings.public_url, settings.allowed_hosts, settings.allowed_origins),
        probes,
        RequestMetrics(requests, turns.key.conversation),
        executions.streams,
    )
