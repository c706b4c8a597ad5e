"""What the HTTP API writes and admits: types of the engine, calls of one module, rates, clients in metrics, answers."""

import asyncio
import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from starlette.datastructures import Headers
from starlette.types import Message
from tests.builders import turn_requested

from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Principal
from pallas_cst.functions import Function, Functions
from pallas_cst.json_schema import parameters_of, type_of
from pallas_cst.parse import parse
from pallas_cst.signatures import read_type
from pallas_cst.stdlib import STANDARD
from pallas_runtime import telemetry
from pallas_runtime.http.bearers import Bearers
from pallas_runtime.probes import Probes
from pallas_turns.model import Observer, Refusal, TurnEnd
from pipelines.http.answers import Refused, bare, engine_outputs, engine_type, engine_types_of
from pipelines.http.requests import AGENTS_OF_A_CALLER, Identities, Marks, Rates, read_marks
from pipelines.http.routing import PipelinesHttp
from pipelines.http.runs import invocation_of
from pipelines.http.turns import Ended, Execution
from pipelines.metrics import MOST_CLIENTS, RequestMetrics, make_metrics
from pipelines.modules.catalogue import Modules
from pipelines.storing.scopes import Scope, Scopes

PEER = Principal(id="10.0.0.1")


@pytest.mark.parametrize(
    ("written", "engine"),
    [
        ("String", "CString"),
        ("Boolean", "CBoolean"),
        ("List<Int>", "CList(CInt)"),
        ("Seq<Float>", "CSeq(CFloat)"),
        ("Map<String, List<Int>>", "CMap(CString,CList(CInt))"),
        ("Optional<String>", "COptional(CString)"),
        ("{ a: Int, b: { c: String } }", "CProduct(Map(a -> CInt, b -> CProduct(Map(c -> CString))))"),
        ("String | Int", "CUnion(Map(Int -> CInt, String -> CString))"),
        ("Json", "CJson"),
    ],
)
def test_types_are_written_as_the_engine_writes_them(written: str, engine: str) -> None:
    assert engine_type(read_type(written)) == engine
    assert engine_types_of({"x": written}) == {"x": engine}


def test_outputs_are_the_fields_of_a_record_or_out() -> None:
    assert engine_outputs(read_type("{ a: Int }")) == {"a": "CInt"}
    assert engine_outputs(read_type("List<Int>")) == {"out": "CList(CInt)"}
    assert engine_types_of({"x": "{ a b: Int }"}) == {"x": "{ a b: Int }"}


def test_own_hashes_and_those_of_versions_have_no_prefix() -> None:
    document = {"structuralHash": "sha256:a", "name": "sha256:b", "versions": [{"structuralHash": "sha256:c"}]}
    assert bare(document) == {"structuralHash": "a", "name": "sha256:b", "versions": [{"structuralHash": "c"}]}


def test_one_module_is_called_by_a_program_of_one_call() -> None:
    schema = {
        "type": "object",
        "properties": {
            "in": {"type": "integer"},
            "result": {"type": "string"},
            "odd": {"type": "object", "properties": {"a b": {"type": "integer"}}, "required": ["a b"]},
            "more": {"type": "number"},
        },
        "required": ["in", "result", "odd"],
    }
    parameters, needed = parameters_of(schema)
    tool = Function("act", parameters, type_of({"type": "string"}), "t/a/act", "t.a", tool=True, needed=needed)
    modules = Modules({}, Functions((*(each.function for each in STANDARD.values()), tool)))
    made = invocation_of(modules, "t.a.act", {"in": 1, "result": "x", "odd": {"a b": 2}})
    assert made is not None
    assert made.source.splitlines() == [
        "in _in: Int",
        "in result_: String",
        'in odd: { "a b": Int }',
        "in more: Optional<Float>",
        "result = t.a.act(_in, result_, odd, more)",
        "out result",
    ]
    parse(made.source)
    assert made.inputs == {"_in": 1, "result_": "x", "odd": {"a b": 2}}
    assert (made.parameters["_in"], made.outputs_of({"result": "y"})) == ("in", {"out": "y"})
    assert invocation_of(modules, "t.a.none", {}) is None
    with pytest.raises(Rejected, match="no parameter 'other'"):
        invocation_of(modules, "t.a.act", {"other": 1})


def test_each_agent_has_a_rate_and_a_caller_that_of_many_agents() -> None:
    now = 0.0
    rates = Rates(per_minute=60, burst=2, clock=lambda: now)
    assert [rates.admit(PEER, "one") for _ in range(3)] == [None, None, 1]
    assert rates.admit(PEER, "two") is None
    assert rates.admit(Principal(type="user", id="u"), "one") is None
    now += 1.0  # what was promised
    assert [rates.admit(PEER, "one") for _ in range(2)] == [None, 1]
    invented = [rates.admit(PEER, f"invented-{number}") for number in range(3 * AGENTS_OF_A_CALLER)]
    assert invented.count(None) <= 2 * AGENTS_OF_A_CALLER
    assert rates.admit(Principal(id="10.0.0.2"), "one") is None


@pytest.mark.parametrize("value", ["", "x" * 257, "a\x7f", "a\tb", "é"])
def test_a_header_that_is_no_printable_text_is_refused_by_its_name(value: str) -> None:
    for name in ("x-constellation-agent", "x-constellation-request-id", "x-request-id"):
        with pytest.raises(Refused, match=f"(?i){name}") as refused:
            read_marks(Headers(raw=[(name.encode(), value.encode("latin-1"))]))
        assert (refused.value.status, refused.value.error) == (400, "InvalidHeader")


def test_the_id_of_a_request_is_that_of_its_agent_or_of_a_proxy() -> None:
    assert read_marks(Headers({})) == Marks(None, None)
    assert read_marks(Headers({"X-Request-ID": "b"})) == Marks(None, "b")
    both = {"X-Request-ID": "b", "X-Constellation-Request-ID": "a", "X-Constellation-Agent": "c:d"}
    assert read_marks(Headers(both)) == Marks("c:d", "a")


def test_the_first_clients_have_series_and_no_series_names_a_person() -> None:
    registry = CollectorRegistry()
    requests = RequestMetrics(make_metrics(registry).requests, lambda label: f"{len(label):06x}and-more")
    requests.count(None, 200)
    requests.count("cli:al@acme.com", 200)
    requests.count("cli:al@acme.com", 404)
    requests.count("cli:al@acme.com", 0)
    for number in range(MOST_CLIENTS):
        requests.count(f"invented-{number}", 200)

    def counted(client: str, code: str) -> float | None:
        return registry.get_sample_value("pallas_pipeline_requests_total", {"client": client, "code": code})

    assert [counted("cli-00000f", code) for code in ("2xx", "4xx", "none")] == [1, 1, 1]
    assert (counted("none", "2xx"), counted("other", "2xx")) == (1, 1)
    assert counted(f"invented-{MOST_CLIENTS - 2}-00000b", "2xx") == 1
    assert counted(f"invented-{MOST_CLIENTS - 1}-00000b", "2xx") is None


async def sent(answer: Execution) -> tuple[int, dict[str, str], Any]:
    """Status, headers and document of an answer to a caller that stays."""
    messages = list[Message]()

    async def send(message: Message) -> None:
        messages.append(message)

    async def stay() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    await answer({"type": "http"}, stay, send)
    headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return messages[0]["status"], headers, json.loads(b"".join(each.get("body", b"") for each in messages[1:]))


@pytest.mark.parametrize(
    ("refusal", "status", "error"),
    [
        (Refusal("busy", "Too many wait.", 2500, limit="queue"), 429, "QueueFull"),
        (Refusal("budget_exhausted", "It is used up.", 2500, limit="caller_budget"), 429, "BudgetExhausted"),
        (Refusal("agent_failed", "It cannot start."), 503, "Unavailable"),
        (Refusal("invalid_arguments", "It is too large."), 400, "InvalidRequest"),
    ],
)
async def test_what_becomes_no_turn_is_refused_before_anything_is_sent(
    refusal: Refusal, status: int, error: str
) -> None:
    async def follow(observer: Observer) -> TurnEnd | Refusal:
        await observer.on_admitted()
        return refusal

    def tell(ended: Ended) -> tuple[int, dict[str, Any]]:
        raise AssertionError

    answer = Execution(turn_requested("pipelines", "constellation"), follow, tell, "r-1", early=True)
    code, headers, document = await sent(answer)
    assert (code, document) == (status, {"error": error, "message": refusal.message, "requestId": "r-1"})
    assert headers.get("retry-after") == {429: "3", 503: "1"}.get(status)


async def test_a_request_is_a_span_with_its_agent_and_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(telemetry.tracer, "_tracer", provider.get_tracer("tests"))
    monkeypatch.setattr(telemetry.tracer, "exported", True)
    metrics = make_metrics(CollectorRegistry())

    async def resolve(question: object) -> Any:
        raise AssertionError

    scopes = Scopes({scope: frozenset({"peer"}) for scope in Scope})
    http = PipelinesHttp(
        [],
        Identities(scopes, Bearers("off", resolve, metrics.auth_failures)),
        Rates(60, 10),
        None,
        Probes(),
        RequestMetrics(metrics.requests, str),
        set(),
    )
    headers = [(b"x-constellation-agent", b"cli:al"), (b"x-constellation-request-id", b"r-1")]
    scope = {"type": "http", "method": "GET", "path": "/none", "raw_path": b"/none", "headers": headers}

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        pass

    await http({**scope, "query_string": b"", "client": ("127.0.0.1", 1)}, receive, send)
    provider.shutdown()
    [span] = kept.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert (attributes["constellation.agent"], attributes["constellation.request_id"]) == ("cli:al", "r-1")
    assert attributes["http.response.status_code"] == 404
