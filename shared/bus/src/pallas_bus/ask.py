"""Questions and answers (request and reply) over `nats.micro`. One of the replicas that answer a question replies."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from nats.aio.msg import Msg
from nats.micro.request import Request
from nats.micro.service import Endpoint, EndpointConfig, Service, ServiceConfig
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode
from pydantic import TypeAdapter, ValidationError

from pallas_bus.connection import Bus
from pallas_bus.headers import SYSTEM, continued, is_traced, trace_headers, tracer
from pallas_contracts.agents import ResourceChanged
from pallas_contracts.catalog import RESOURCE_CHANGED
from pallas_contracts.contract import Question
from pallas_contracts.errors import (
    BadGateway,
    Conflict,
    Denied,
    NotFound,
    PallasError,
    Rejected,
    Unavailable,
    find_error,
)
from pallas_contracts.message import Message

log = logging.getLogger(__name__)

_FACTS = TypeAdapter(dict[str, Any])


class _Endpoint(Endpoint):
    """The subscription for a question. Unlike its base class, it handles what it has received before it stops."""

    async def open(self) -> None:
        await self._start()

    async def _stop(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.drain()


class Answering(Service):
    """This process as a service that answers questions. Made by `answering`."""

    _endpoints: list[Endpoint]

    def __init__(self, bus: Bus, config: ServiceConfig) -> None:
        super().__init__(bus.client, config)
        self._in_progress = 0
        self._one_answered = asyncio.Event()

    async def open(self, config: EndpointConfig) -> None:
        """Add an endpoint."""
        endpoint = _Endpoint(self, config)
        await endpoint.open()
        self._endpoints.append(endpoint)

    async def finish(self) -> None:
        """Accept no more questions, and return when all accepted ones are answered."""
        await self.stop()
        while self._in_progress:
            self._one_answered.clear()
            await self._one_answered.wait()

    @contextmanager
    def in_progress(self) -> Generator[None]:
        """A question is being answered inside the block."""
        self._in_progress += 1
        try:
            yield
        finally:
            self._in_progress -= 1
            self._one_answered.set()


type Answer[Q: Message, A: Message] = Callable[[Q], Awaitable[A]]

_KINDS: dict[str, type[PallasError]] = {
    kind.kind: kind for kind in (Rejected, NotFound, Denied, Conflict, Unavailable, BadGateway)
}


def kind_of(word: str) -> type[PallasError]:
    """The class of the errors of a kind; `PallasError` (internal) for an unknown word."""
    return _KINDS.get(word, PallasError)


async def answering(bus: Bus, *, description: str = "") -> Answering:
    """Announce this process as a service that answers questions (`nats micro ls` shows it)."""
    service = Answering(bus, ServiceConfig(name=bus.service, version="0.1.0", description=description))
    await service.start()
    return service


async def answer[Q: Message, A: Message](
    bus: Bus, service: Answering, question: Question[Q, A], handler: Answer[Q, A], **ids: str
) -> None:
    """Answer `question` for `ids` (an id that is left out means all) with `handler`, each in a task of its own.

    When this returns, the subscription is active. A `PallasError` of the handler is sent to the asker with its kind,
    code, message and facts, any other error as `internal`.
    """

    async def reply(request: Request) -> None:
        about = _about(question, request.subject, "process")
        with (
            continued(request.headers),
            tracer.start_as_current_span(f"answer {question.name}", kind=SpanKind.SERVER, attributes=about) as span,
        ):
            await respond(request, span)

    async def respond(request: Request, span: Span) -> None:
        with service.in_progress():
            try:
                answered = await handler(_decoded(question, request.data))
                body = answered.model_dump_json().encode()
                if len(body) > bus.max_payload:
                    raise Rejected(f"the answer to {question.name} is larger than the broker accepts", code="too_large")
            except Exception as error:
                known = find_error(error)
                if known is None:
                    log.exception("a request failed", extra={"question": question.name})
                    known = PallasError(f"{question.name} failed with {type(error).__name__}")
                _failed(span, known.code)
                # The message is sent in a header, which is one line.
                facts = json.dumps(known.facts, default=str).encode()
                await request.respond_error(f"{known.kind}:{known.code}", " ".join(known.message.split()), facts)
            else:
                await request.respond(body)

    async def handle(request: Request) -> None:
        bus.spawn(reply(request) if traced else respond(request, INVALID_SPAN), at_once=True)

    traced = is_traced()
    name = "-".join([question.name.replace(".", "-"), *ids.values()])
    await service.open(EndpointConfig(name=name, subject=question.template.filter(**ids), handler=handle))
    await bus.client.flush()


async def ask[Q: Message, A: Message](
    bus: Bus, question: Question[Q, A], body: Q, *, timeout: float | None = None, **ids: str
) -> A:
    """Ask and wait for the answer, for `timeout` seconds (default: the question's own timeout).

    Raises:
        Unavailable: no process answers the question (`no_responders`), or there was no answer in time.
        PallasError: the answer cannot be decoded (`undecodable`), or what the handler raised, with its kind and code.
    """
    subject = question.template.subject(**ids)
    about = _about(question, subject, "send")
    with tracer.start_as_current_span(f"ask {question.name}", kind=SpanKind.CLIENT, attributes=about) as span:
        message = await bus.request(
            subject, body.model_dump_json().encode(), headers=trace_headers(), timeout=timeout or question.timeout
        )
        headers = message.headers or {}
        if (code := headers.get("Nats-Service-Error-Code")) is not None:
            kind, _, word = code.partition(":")
            _failed(span, word)
            sentence = headers.get("Nats-Service-Error", "no reason given")
            raise kind_of(kind)(sentence, code=word or None, **_facts(message.data))
        try:
            return question.answer.model_validate_json(message.data)
        except ValidationError as error:
            _failed(span, "undecodable")
            reason = f"the answer to {question.name} cannot be decoded: {error.error_count()} invalid fields"
            raise PallasError(reason, code="undecodable") from error


def _about[Q: Message, A: Message](question: Question[Q, A], subject: str, operation: str) -> dict[str, str]:
    """The attributes of a question's span."""
    names = {"messaging.operation.type": operation, "messaging.operation.name": operation}
    return SYSTEM | names | {"messaging.destination.name": subject, "pallas.question": question.name}


def _decoded[Q: Message, A: Message](question: Question[Q, A], data: bytes) -> Q:
    try:
        return question.question.model_validate_json(data)
    except ValidationError as error:
        raise Rejected(f"{error.error_count()} invalid fields in the question", code="undecodable") from error


def _failed(span: Span, code: str) -> None:
    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR)


def _facts(data: bytes) -> dict[str, Any]:
    try:
        return _FACTS.validate_json(data or b"{}")
    except ValidationError:
        return {}


async def announce_change(bus: Bus, team: str, agent: str, uri: str) -> None:
    """Announce that a resource of an agent has changed. Without a connection this does nothing."""
    message = ResourceChanged(team=team, agent=agent, uri=uri)
    with suppress(Unavailable):
        await bus.send(RESOURCE_CHANGED.template.subject(team=team, agent=agent), message.model_dump_json().encode())


@asynccontextmanager
async def watch_changes(bus: Bus, on_change: Callable[[str, str, str], None]) -> AsyncGenerator[None]:
    """Call `on_change(team, agent, uri)` for every change that is announced, inside the block."""

    def arrived(message: Msg) -> None:
        ids = RESOURCE_CHANGED.template.parse(message.subject)  # the broker checks who may use the subject
        try:
            change = ResourceChanged.model_validate_json(message.data)
        except ValidationError as error:
            log.warning("unreadable change", extra={"subject": message.subject, "faults": error.error_count()})
        else:
            if ids is not None:
                on_change(ids["team"], ids["agent"], change.uri)

    subscription = await bus.listen(RESOURCE_CHANGED.template.filter(), arrived)
    try:
        yield
    finally:
        await bus.unsubscribe(subscription)
