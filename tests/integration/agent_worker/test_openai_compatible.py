"""Agents on a model behind an OpenAI-compatible address: a small server that speaks its streaming protocol."""

import json
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from prometheus_client import CollectorRegistry
from tests.requirements import requirement
from tests.runtimes import Events, a_team, a_turn, text_of
from tests.waiting import PATIENCE

from agent_worker.llm import models
from agent_worker.teams import host_team
from pallas_contracts.turns import ModelCalled, ModelFailed, TextDelta, ToolFailed
from pallas_hosting.metered import Watching, make_metrics
from pallas_teams import load_team
from pallas_teams.prices import Price, PriceTable
from pallas_turns.runtime import AgentRuntime, Failed, Outcome

KEY = "sk-hunter2secret"


class Provider(ThreadingHTTPServer):
    """Answers every request with `status` and, when that is 200, with `words` one by one, as soon as `go` is set.

    The first answer is `calls` instead, if there are any: the pieces of tool calls. Of every answer, so many events
    are `missing` at its end: 1 is the mark of the end, 2 the usage, 3 the reason.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status = 200
        self.error = "no"
        self.cached = 0
        self.missing = 0
        self.coding: str | None = None
        self.go = threading.Event()
        self.go.set()
        self.words: tuple[str, ...] = ("Good ", "day")
        self.calls: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


def stream_of(words: tuple[str, ...], calls: list[dict[str, Any]], cached: int) -> list[dict[str, Any]]:
    """The chunks of an answer: one for each word or piece of a call, the end, the usage."""
    choices: list[list[dict[str, Any]]] = [
        *([{"index": 0, "delta": {"role": "assistant", "content": word}}] for word in words),
        *([{"index": 0, "delta": {"tool_calls": [piece]}}] for piece in calls),
        [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}],
        [],
    ]
    about: dict[str, Any] = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    chunks = [about | {"choices": choice} for choice in choices]
    details = {"cached_tokens": cached}
    chunks[-1]["usage"] = {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "total_tokens": 9,
        "prompt_tokens_details": details,
    }
    return chunks


class Handler(BaseHTTPRequestHandler):
    """One request of the chat completions API."""

    @property
    def provider(self) -> "Provider":
        """The server."""
        return cast(Provider, self.server)

    def do_POST(self) -> None:
        provider = self.provider
        body = self.rfile.read(int(self.headers["content-length"]))
        provider.requests.append(json.loads(body))
        provider.go.wait(PATIENCE)
        provider.keys.append(self.headers["authorization"])
        self.send_response(provider.status)
        self.send_header("retry-after-ms", "1")
        if provider.status != 200:
            self._send("application/json", json.dumps({"error": {"message": provider.error}}))
            return
        calls = provider.calls if len(provider.requests) == 1 else []
        chunks = [json.dumps(chunk) for chunk in stream_of(provider.words, calls, provider.cached)] + ["[DONE]"]
        sent = chunks[: len(chunks) - provider.missing]
        self._send("text/event-stream", "".join(f"data: {chunk}\n\n" for chunk in sent))

    def _send(self, kind: str, text: str) -> None:
        self.send_header("content-type", kind)
        if (coding := self.provider.coding) is not None:
            self.send_header("content-encoding", coding)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Log nothing."""


@pytest.fixture
def provider() -> Generator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
async def agent(tmp_path: Path, provider: Provider) -> AsyncGenerator[AgentRuntime]:
    files = {
        "agents.yaml": "name: demo\nagents:\n  harper: {instruction: Be kind.}\n",
        "fastagent.config.yaml": f"default_model: generic.tiny\ngeneric:\n  base_url: {provider.url}\n",
        "fastagent.secrets.yaml": f"generic:\n  api_key: {KEY}\n",
    }
    team = await a_team(tmp_path, files)
    yield team.agents[0].runtime
    await team.shared.close()


async def test_a_turn_streams_the_models_text_and_counts_its_tokens(agent: AgentRuntime, provider: Provider) -> None:
    events = Events()
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    outcome = await agent.run_turn(a_turn(message="how do you do", history=history), events)
    assert text_of(outcome) == "Good day"
    assert "".join(event.text for event in events.of(TextDelta)) == "Good day"
    (called,) = events.of(ModelCalled)
    assert (called.model, called.input_tokens, called.output_tokens) == ("tiny", 7, 2)
    (request,) = provider.requests
    assert [(row["role"], row["content"]) for row in request["messages"]] == [
        ("system", "Be kind."),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "how do you do"),
    ]
    assert provider.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize("missing", [3, 4, 5])
async def test_a_stream_that_ends_before_its_end_is_no_answer_and_its_calls_are_not_made(
    agent: AgentRuntime, provider: Provider, missing: int
) -> None:
    provider.missing = missing
    provider.calls = [{"index": 0, "id": "a", "type": "function", "function": {"name": "no__such", "arguments": "{}"}}]
    events = Events()
    outcome = await agent.run_turn(a_turn(message="hi"), events)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == ("model_failed", True)
    assert "its answer broke off" in outcome.message
    assert events.of(ToolFailed) == []


@pytest.mark.parametrize(
    ("letters", "coding", "reason"),
    [
        (9 * 1024 * 1024, None, "its answer is too large"),
        (1, "gzip, gzip", "its answer is compressed, which was not asked for"),
    ],
)
async def test_an_answer_that_would_cost_the_worker_too_much_is_not_read(
    agent: AgentRuntime, provider: Provider, letters: int, coding: str | None, reason: str
) -> None:
    provider.words, provider.coding = ("x" * letters,), coding
    outcome = await agent.run_turn(a_turn(message="hi"), Events())
    assert isinstance(outcome, Failed)
    assert outcome.code == "model_failed"
    assert reason in outcome.message
    assert len(provider.requests) == 1, "the answer would be the same"


@pytest.mark.parametrize("missing", [1, 2])
async def test_an_answer_without_its_last_events_is_whole_if_it_says_why_it_ended(
    agent: AgentRuntime, provider: Provider, missing: int
) -> None:
    provider.missing = missing
    assert text_of(await agent.run_turn(a_turn(message="hi"), Events())) == "Good day"


async def test_the_calls_of_a_streamed_response_go_back_with_their_results(
    agent: AgentRuntime, provider: Provider
) -> None:
    provider.calls = [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "no__such", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"x"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "nor__this", "arguments": "{}"}},
    ]
    events = Events()
    outcome = await agent.run_turn(a_turn(message="hi"), events)
    assert text_of(outcome) == "Good day\n\nGood day"
    assert events.lines()[2:6] == [
        "no/such: started",
        "no/such: failed",
        "nor/this: started",
        "nor/this: failed",
    ]
    *_, said, first, second = provider.requests[1]["messages"]
    assert (said["role"], said["content"]) == ("assistant", "Good day")
    assert [(call["id"], call["function"]) for call in said["tool_calls"]] == [
        ("a", {"name": "no__such", "arguments": '{"x":1}'}),
        ("b", {"name": "nor__this", "arguments": "{}"}),
    ]
    assert [(row["role"], row["tool_call_id"]) for row in (first, second)] == [("tool", "a"), ("tool", "b")]
    assert "Unknown tool name: 'no__such'. No tools available." in first["content"]


@pytest.mark.parametrize(
    ("status", "error", "code", "retryable"),
    [
        (401, f"Incorrect API key provided: {KEY}", "model_failed", False),
        (400, "This model's maximum context length is 10 tokens", "context_overflow", False),
        (404, "no such model", "model_failed", False),
    ],
)
async def test_an_error_of_the_provider_ends_the_turn_without_secrets(
    agent: AgentRuntime, provider: Provider, status: int, error: str, code: str, retryable: bool
) -> None:
    provider.status, provider.error = status, error
    outcome = await agent.run_turn(a_turn(message="hi"), Events())
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == (code, retryable)
    assert "hunter2" not in outcome.message


async def test_a_turn_that_names_a_model_is_executed_with_that_model(agent: AgentRuntime, provider: Provider) -> None:
    for model in ("generic.huge", "generic.huge", "offline"):
        events = Events()
        outcome = await agent.run_turn(replace(a_turn(message="hi"), model=model), events)
        assert text_of(outcome) == ("Echo: hi" if model == "offline" else "Good day")
        assert [event.model for event in events.of(ModelCalled)] == [model.rpartition(".")[2]]
    await agent.run_turn(a_turn(message="hi"), Events())
    assert [request["model"] for request in provider.requests] == ["huge", "huge", "tiny"]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("openai.gpt-5", "has not configured the provider"),
        ("generic", "is not a model"),
        ("else.where", "is not a model"),
    ],
)
async def test_a_model_of_a_provider_that_the_team_has_not_configured_is_refused(
    agent: AgentRuntime, provider: Provider, model: str, reason: str
) -> None:
    outcome = await agent.run_turn(replace(a_turn(message="hi"), model=model), Events())
    assert isinstance(outcome, Failed)
    assert outcome.code == "unknown_model"
    assert reason in outcome.message
    assert provider.requests == []


async def test_an_unreachable_provider_is_a_retryable_error(tmp_path: Path) -> None:
    files = {
        "agents.yaml": "name: demo\nagents:\n  harper: {}\n",
        "fastagent.config.yaml": "default_model: generic.tiny\ngeneric:\n  base_url: http://127.0.0.1:9/v1\n",
    }
    team = await a_team(tmp_path, files)
    outcome = await team.agents[0].runtime.run_turn(a_turn(message="hi"), Events())
    await team.shared.close()
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == ("model_failed", True)
    assert "127.0.0.1" not in outcome.message


class Metered:
    """The agent of a team whose turns are counted."""

    def __init__(self, runtime: AgentRuntime, registry: CollectorRegistry) -> None:
        self.runtime = runtime
        self.registry = registry

    async def ask(self) -> tuple[Outcome, Events]:
        events = Events()
        return await self.runtime.run_turn(a_turn(message="hello"), events), events

    def counted(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
async def metered(agent: AgentRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Metered]:
    """The same team. Its models are given up after half a second without an answer."""
    monkeypatch.setattr(models, "_TIMEOUT", httpx2.Timeout(0.5))
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    registry = CollectorRegistry()
    metrics = make_metrics(registry)
    metrics.executor.agents.changed("demo.harper", object())
    prices = PriceTable("USD", {"generic.tiny": Price(10_000_000, 1_000_000, 10_000_000, 20_000_000)})
    team = await host_team(load_team(tmp_path, {}), Watching(prices=prices, metrics=metrics.models))
    yield Metered(team.agents[0].runtime, registry)
    await team.shared.close()


@requirement("K-cost-1")
async def test_tokens_from_the_providers_cache_cost_what_they_cost(metered: Metered, provider: Provider) -> None:
    provider.cached = 5
    _, events = await metered.ask()
    (called,) = events.of(ModelCalled)
    assert (called.provider, called.input_tokens, called.cached_tokens, called.output_tokens) == ("generic", 7, 5, 2)
    assert called.cost is not None
    assert called.cost.nanos == 2 * 10 + 5 * 1 + 2 * 20
    own = {"team": "demo", "agent": "harper", "model": "generic.tiny"}
    kinds = {kind: metered.counted("pallas_model_tokens_total", **own, kind=kind) for kind in ("input", "cached")}
    assert kinds == {"input": 2, "cached": 5}
    assert metered.counted("pallas_provider_responses_total", provider="generic", code="2xx") == 1


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [(429, "429", "rate_limited"), (503, "5xx", "server_error"), (401, "4xx", "refused")],
)
async def test_a_refusal_of_the_provider_is_counted_each_time_and_its_call_once(
    metered: Metered, provider: Provider, status: int, code: str, outcome: str
) -> None:
    provider.status = status
    ended, events = await metered.ask()
    assert isinstance(ended, Failed)
    (failed,) = events.of(ModelFailed)
    assert (failed.provider, failed.model, failed.code) == ("generic", "tiny", outcome)
    asked = len(provider.requests)  # the SDK asks again after some of them
    assert metered.counted("pallas_provider_responses_total", provider="generic", code=code) == asked
    own = {"team": "demo", "agent": "harper", "model": "generic.tiny"}
    assert metered.counted("pallas_model_calls_total", **own, outcome=outcome) == 1


async def test_a_provider_that_does_not_answer_in_time_is_counted_as_a_timeout(
    metered: Metered, provider: Provider
) -> None:
    provider.go.clear()
    _, events = await metered.ask()
    provider.go.set()
    (failed,) = events.of(ModelFailed)
    assert failed.code == "timeout"
    assert metered.counted("pallas_provider_responses_total", provider="generic", code="timeout") == 3
