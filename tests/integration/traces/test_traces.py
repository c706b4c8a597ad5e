"""One trace of one turn, from its caller to the last service that is asked, at a real collector.

The turn has a sub-agent, a tool that fails, and a worker that gives it back in the middle.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.traces.stage import Stage, a_stage
from tests.journeys import TURN, Edge
from tests.otlp import Span
from tests.postgres import PostgresServer
from tests.requirements import requirement

from pallas_bus.connection import connect
from pallas_bus.reads import Record, read
from pallas_bus.streams import live_subject
from pallas_contracts.catalog import CLI, TURN_EVENT, TURN_LOG

pytestmark = pytest.mark.timeout(300)  # eight processes start for the first test

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PROMPT, FAULT, PAGE = "said-in-confidence", "a-fault-with-a-secret", "A page of the manuals"
TRACED = [edge for edge in TURN if edge.how not in ("redis", "postgres")]
"""Requests to the stores are part of the spans of their callers."""

PARTS = {"agent-gateway", "agent-worker", "auth-resolver", "team-lifecycle", "library-search", "demo-tools"}


def asked() -> str:
    """The message to harper: let research search, and let a tool fail."""
    steps = f'/tool library/search {{"query": "page"}}\n/tool toolbox/fail {{"message": "{FAULT}"}}\n/say {PROMPT}'
    return f"{PROMPT}\n/sleep 1\n/tool research {json.dumps({'message': steps})}"


@dataclass(frozen=True)
class Story:
    """The records of the turn: its answer, its spans, and its messages in the log."""

    turn: str
    text: str
    spans: list[Span]
    log: list[Record]

    def named(self, name: str, service: str | None = None) -> list[Span]:
        """Spans by name, in the order in which they began."""
        found = [span for span in self.spans if span.name == name and service in (None, span.service)]
        return sorted(found, key=lambda span: span.began)

    def one(self, name: str, service: str | None = None) -> Span:
        """The only span of that name."""
        [span] = self.named(name, service)
        return span

    def parent(self, span: Span) -> Span | None:
        """The parent of a span; None if that is the caller's."""
        return next((each for each in self.spans if each.id == span.parent), None)


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> AsyncGenerator[Stage]:
    async with a_stage(tmp_path_factory.mktemp("stage"), postgres) as stage:
        yield stage


@pytest.fixture(scope="module")
async def story(stage: Stage) -> Story:
    first = await stage.worker("worker-1")
    begun = asyncio.Event()

    async def on_message(_message: object) -> None:
        begun.set()

    stage.redis.say("FLUSHALL")  # so that the resolver has to ask team-lifecycle
    async with connect(stage.nats, CLI) as bus:
        await bus.subscribe(live_subject(TURN_EVENT.template.filter()), on_message)
        await bus.flush()
        calling = asyncio.create_task(stage.call(asked(), meta={"traceparent": f"00-{TRACE}-{CALLER}-01"}))
        await begun.wait()
        first.send(signal.SIGTERM)
        await first.process.wait()
        await stage.worker("worker-2")
        result = await calling
        turn: str = result["_meta"]["pallas/turn"]
        log = [record async for record in read(bus, TURN_LOG.name, f"pallas.v1.turn.*.*.*.{turn}")]
    await stage.collector.until(lambda: both_attempts_complete(stage.collector.of(TRACE)))
    return Story(turn, result["content"][0]["text"], stage.collector.of(TRACE), log)


def complete(spans: list[Span]) -> bool:
    """Whether a turn's last spans have arrived, and every span's parent."""
    names, ids = {span.name for span in spans}, {span.id for span in spans}
    has_parents = all(span.parent in ids or span.parent in (CALLER, "") for span in spans)
    return has_parents and {"tools/call harper", "relay_turn", "take_turn", "conclude_turn"} <= names


def both_attempts_complete(spans: list[Span]) -> bool:
    """Whether the spans of both attempts have arrived, and those of the other services.

    A service exports the span of a question that it asks for a request before that of the request.
    """
    parents = {span.parent for span in spans if span.kind == "server"}
    answered = all(span.id in parents for span in spans if span.name.startswith(("ask ", "MCP send ")))
    attempts = [span for span in spans if span.name == "take_turn"]
    everybody = {span.service for span in spans} >= PARTS
    return complete(spans) and answered and len(attempts) == 2 and everybody


async def test_the_turn_ended_with_the_expected_answer(story: Story) -> None:
    assert PAGE.split()[-1] in story.text
    assert f"toolbox/fail failed: Error executing tool fail: {FAULT}" in story.text


async def test_the_spans_of_a_turn_are_one_tree_below_its_callers_span(story: Story) -> None:
    beginnings = {span.name for span in story.spans if span.parent == CALLER}
    assert beginnings == {"ask auth.resolve", "tools/call harper"}
    assert {span.service for span in story.spans} == PARTS


@requirement("K-pkg-4")
@pytest.mark.parametrize("edge", TRACED, ids=lambda edge: f"{edge.source}-{edge.destination}-{edge.what}")
async def test_every_edge_of_the_journey_is_in_the_trace_of_a_turn(story: Story, edge: Edge) -> None:
    assert [pair for pair in steps(story) if pair == (edge.source, edge.destination, edge.what)]


def steps(story: Story) -> set[tuple[str, str, str]]:
    """Edges (source, destination, what) from the spans: each span whose parent is of another service."""
    found = {("agent-worker", "model", "model call") for span in story.spans if span.name.startswith("chat ")}
    for span in story.spans:
        parent = story.parent(span)
        source = parent.service if parent is not None else "caller"
        if source != span.service:
            found.add((source, span.service, what(span)))
    ids = {span.id: span for span in story.spans}
    for record in story.log:
        kind = ".".join(record.subject.split(".")[2:4])
        within = ids.get(record.headers["traceparent"].split("-")[2])
        if within is not None and story.named("relay_turn", "agent-gateway"):
            found.add((within.service, "agent-gateway", kind))
    return found


def what(span: Span) -> str:
    """The message of a span, in the terms of `tests.journeys`."""
    match span.name.split():
        case ["answer", question]:
            return question
        case ["take_turn" | "wait_in_queue"]:
            return "turn.requested"
        case [method, *_]:
            return method
        case _:
            return ""


async def test_the_attempts_of_a_turn_are_siblings(story: Story) -> None:
    first, second = story.named("take_turn")
    submitted = story.one("submit_turn")
    assert first.parent == second.parent == submitted.id
    assert (first.instance, second.instance) == ("worker-1", "worker-2")
    assert [attempt.attributes["pallas.attempt"] for attempt in (first, second)] == [1, 2]
    assert [attempt.attributes["pallas.settled"] for attempt in (first, second)] == ["nak", "concluded"]


async def test_the_wait_in_the_queue_is_a_span_between_submitting_and_taking(story: Story) -> None:
    waited, submitted, taken = story.one("wait_in_queue"), story.one("submit_turn"), story.named("take_turn")[0]
    assert waited.parent == submitted.id
    assert submitted.began <= waited.began <= waited.ended <= taken.ended


async def test_the_span_of_a_sub_agent_is_below_that_of_its_call(story: Story) -> None:
    within = story.one("invoke_agent research")
    call = story.parent(within)
    assert call is not None
    assert call.name == "execute_tool research__research"
    caller = story.parent(call)
    assert caller is not None
    assert (caller.name, caller.parent) == ("invoke_agent harper", story.named("run_turn")[1].id)
    inside = {span.name for span in story.spans if span.parent == within.id}
    assert {"chat offline", "execute_tool library__search", "execute_tool toolbox__fail"} <= inside


async def test_only_the_span_of_a_failed_tool_is_marked_as_an_error(story: Story) -> None:
    failed = {span.name for span in story.spans if span.failed}
    assert failed == {"execute_tool toolbox__fail", "tools/call fail"}


async def test_spans_of_models_agents_and_messages_follow_the_semantic_conventions(story: Story) -> None:
    for span in story.named("chat offline"):
        assert span.kind == "client"
        assert span.attributes["gen_ai.operation.name"] == "chat"
        assert span.attributes["gen_ai.request.model"] == "offline"
        assert span.attributes["gen_ai.agent.name"] in ("harper", "research")
        assert span.attributes["gen_ai.usage.input_tokens"] > 0
        assert span.attributes["gen_ai.usage.output_tokens"] > 0
    run, call = story.one("invoke_agent research"), story.one("execute_tool library__search")
    for span in (run, call):
        assert span.kind == "internal"
        assert span.attributes["gen_ai.operation.name"] == span.name.split()[0]
        assert span.attributes["gen_ai.agent.name"] == "research"
    chats = [span for span in story.named("chat offline") if span.parent == run.id]
    for unit in ("input_tokens", "output_tokens"):
        all_tokens = sum(span.attributes[f"gen_ai.usage.{unit}"] for span in chats)
        assert run.attributes[f"gen_ai.aggregated_usage.{unit}"] == all_tokens
    assert call.attributes["gen_ai.tool.name"] == "library__search"
    assert call.attributes["gen_ai.tool.call.id"]
    for name, kind, operation in (("submit_turn", "producer", "send"), ("take_turn", "consumer", "process")):
        for span in story.named(name):
            assert span.kind == kind
            assert span.attributes["messaging.system"] == "nats"
            assert span.attributes["messaging.operation.type"] == operation
            assert span.attributes["messaging.message.id"] == f"turn.requested:{story.turn}"


async def test_every_span_after_submission_names_its_turn(story: Story) -> None:
    with_turn = [span for span in story.spans if "pallas.turn" in span.attributes]
    before = {span.name for span in story.spans if span not in with_turn}
    assert before == {"ask auth.resolve", "answer auth.resolve", "ask auth.lookup", "answer auth.lookup"}
    keys = ("pallas.team", "pallas.agent", "pallas.turn")
    assert {tuple(span.attributes[key] for key in keys) for span in with_turn} == {("traced", "harper", story.turn)}


async def test_pallas_turns_trace_shows_the_same_tree_as_the_spans(stage: Stage, story: Story) -> None:
    pallas = Path(sys.executable).with_name("pallas")
    command = ("turns", "trace", story.turn, "--nats", stage.nats, "--json")
    process = await asyncio.create_subprocess_exec(pallas, *command, stdout=asyncio.subprocess.PIPE)
    document: dict[str, Any] = json.loads((await process.communicate())[0])
    of_spans = tree_below(story, story.one("submit_turn").id)
    of_log = [as_tree(node) for node in document["spans"]]
    assert document["trace"] == TRACE
    assert [name for name, _ in of_log] == [name for name, _ in of_spans] == ["wait_in_queue", "take_turn", "take_turn"]
    assert of_log[-1] == of_spans[-1]


type Tree = tuple[str, list[Any]]

DRAWN = ("wait_in_queue", "take_turn", "invoke_agent", "chat", "execute_tool")
"""The spans that the log can show. Spans below others are shown below the nearest of these."""


def tree_below(story: Story, parent: str) -> list[Tree]:
    """The spans that lie within another one, in their order."""
    found: list[Tree] = []
    for span in sorted((span for span in story.spans if span.parent == parent), key=lambda span: span.began):
        below = tree_below(story, span.id)
        found += [(span.name, below)] if span.name.split()[0] in DRAWN else below
    return found


def as_tree(node: dict[str, Any]) -> Tree:
    """The same tree from the output of `pallas turns trace`."""
    return node["name"], [as_tree(child) for child in node["children"]]


async def test_no_content_is_in_a_span(stage: Stage, story: Story) -> None:
    sent = b"\n".join(stage.collector.requests)
    secrets = (PROMPT, FAULT, PAGE, stage.bearer, stage.downstream["bearer"])
    assert story.turn.encode() in sent
    assert [secret for secret in secrets if secret.encode() in sent] == []


def logged(file: Path) -> list[dict[str, Any]]:
    """The complete lines of a log."""
    return [json.loads(line) for line in file.read_text("utf-8").rpartition("\n")[0].splitlines()]


@pytest.mark.parametrize("name", ["worker-2", "resolver"])
async def test_log_lines_name_the_trace_and_the_turn(stage: Stage, story: Story, name: str) -> None:
    lines = logged(stage.folder / f"{name}.log")
    ids = {span.id for span in story.spans if span.instance == name}
    about = [line for line in lines if line.get("turn") == story.turn]
    assert about
    assert {line["trace"] for line in about} == {TRACE}
    assert {line["span"] for line in about} <= ids
    assert {(line["team"], line["agent"]) for line in about} == {("traced", "harper")}


async def test_every_log_line_that_names_a_turn_names_its_trace_team_and_agent(stage: Stage, story: Story) -> None:
    lines = [line for file in stage.folder.glob("*.log") if file.stem != "demo" for line in logged(file)]
    about = [line for line in lines if "turn" in line]
    assert story.turn in {line["turn"] for line in about}
    # The gateway says something only if it notices before the next worker that the first one was lost.
    assert {"worker-1", "worker-2", "resolver"} <= {line["instance"] for line in about}
    assert [line for line in about if not {"trace", "team", "agent"} <= line.keys()] == []


async def test_without_a_trace_in_the_message_the_traceparent_header_is_used(stage: Stage, story: Story) -> None:
    trace = TRACE[::-1]
    result = await stage.call("/say hello", traceparent=f"00-{trace}-{CALLER}-01")
    await stage.collector.until(lambda: complete(stage.collector.of(trace)))
    assert result["_meta"]["pallas/turn"] != story.turn
    assert {span.name for span in stage.collector.of(trace) if span.parent == CALLER} == {
        "ask auth.resolve",
        "tools/call harper",
    }


async def test_a_call_without_a_trace_starts_one(stage: Stage, story: Story) -> None:
    turn: str = (await stage.call("/say hello"))["_meta"]["pallas/turn"]

    def of_turn() -> list[Span]:
        traces = {span.trace for span in stage.collector.spans if span.attributes.get("pallas.turn") == turn}
        return [span for span in stage.collector.spans if span.trace in traces]

    await stage.collector.until(lambda: any(span.name == "serve" for span in of_turn()) and complete(of_turn()))
    [root] = [span for span in of_turn() if not span.parent]
    assert (root.name, root.service) == ("serve", "agent-gateway")
    assert {span.name for span in of_turn() if span.parent == root.id} == {"ask auth.resolve", "tools/call harper"}
    assert story.turn != turn


async def test_content_is_in_spans_only_if_the_setting_asks_for_it(stage: Stage, story: Story) -> None:
    await stage.worker("worker-3", "told", trace_content="true")
    trace = TRACE.replace("4", "5")
    secret = f"{PROMPT}-and-told"
    await stage.call(f"/say {secret}", team="told", meta={"traceparent": f"00-{trace}-{CALLER}-01"})
    await stage.collector.until(lambda: complete(stage.collector.of(trace)))
    [chat] = [span for span in stage.collector.of(trace) if span.name == "chat offline"]
    assert secret in chat.attributes["gen_ai.input.messages"]
    assert {span.instance for span in stage.collector.of(trace) if secret in str(span.attributes)} == {"worker-3"}
    assert story.turn
