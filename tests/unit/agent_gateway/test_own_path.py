"""Over its own path a `tools/call` gets what it gets over the SDK's: the answer, what comes before it, and the turn."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from sse_starlette import EventSourceResponse
from tests.builders import turn_outcome
from tests.unit.agent_gateway.paths import (
    HOST,
    MOST_BYTES,
    Answered,
    Asked,
    Attempt,
    Connection,
    End,
    Paths,
    Queued,
    Script,
    gateway,
)

from pallas_contracts.turns import (
    Fault,
    InputRequired,
    LogMessage,
    Progress,
    Result,
    Step,
    ToolCompleted,
    ToolStarted,
    TurnEvent,
    TurnRequested,
)
from pallas_turns.claims import Cursor
from pallas_turns.model import Refusal, TurnEnd

MODERN, LEGACY = LATEST_MODERN_VERSION, LATEST_HANDSHAKE_VERSION
META = "io.modelcontextprotocol/"
LINE_ENDS = "a\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\x7fb"
TEXT = {"type": "text", "text": "done — fertig"}


@dataclass
class Draft:
    """A request that is being made up: a well-formed `tools/call` until something is changed."""

    version: str | None
    name: str = "work"
    arguments: dict[str, Any] = field(default_factory=lambda: {"n": 1})
    meta: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = [
            (b"host", HOST),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
        ]
        if self.version is not None:
            self.headers.append((b"mcp-protocol-version", self.version.encode()))
        if self.version == MODERN:
            self.headers += [(b"mcp-method", b"tools/call"), (b"mcp-name", self.name.encode())]
            info = {"name": "tests", "version": "0"}
            required = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}, f"{META}clientInfo": info}
            self.meta = {**required, **self.meta}
        self.params: dict[str, Any] = {"name": self.name, "arguments": self.arguments, "_meta": self.meta}
        self.message: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": self.params}
        self.rewrite: Callable[[bytes], bytes] = lambda body: body

    @property
    def fields(self) -> tuple[dict[str, Any], ...]:
        """The members of the message, of its params, and of their metadata."""
        return self.message, self.params, self.meta

    def asked(self, piece: int = 1 << 20) -> Asked:
        return Asked(tuple(self.headers), self.rewrite(json.dumps(self.message).encode()), piece)


def ends(answer: Result | InputRequired | Fault | None, **fields: Any) -> End:
    """A turn that ends with that answer."""
    return lambda request: TurnEnd(turn_outcome(request, **fields), answer, Cursor(1, 90))


def refuses(refusal: Refusal) -> End:
    return lambda request: refusal


def breaks(request: TurnRequested) -> TurnEnd:
    """A bug in the gateway."""
    raise RuntimeError(f"broken at {request.tool}")


ENDS: dict[str, End] = {
    "text": ends(Result(content=(TEXT,))),
    "all of a result": ends(
        Result(content=(TEXT, TEXT), structured={"a": [None, 1.5]}, meta={"of": "tool"}, is_error=True)
    ),
    "ends of lines": ends(Result(content=({**TEXT, "text": LINE_ENDS},), structured={LINE_ENDS: LINE_ENDS})),
    "structured text": ends(Result(structured="text")),
    "content that MCP does not know": ends(Result(content=({"type": "odd"},))),
    "metadata that are no metadata": ends(Result(content=({**TEXT, "_meta": 5},))),
    "input": ends(InputRequired(input_requests={}, request_state="state"), status="input_required"),
    "input that MCP does not know": ends(InputRequired(input_requests={"a": {"method": "odd"}})),
    "a fault": ends(Fault(message="it failed"), status="failed", code="tool_failed"),
    "a protocol error": ends(Fault(message="not so", protocol_code=-32602, data={"a": 1}), status="failed"),
    "a protocol error of its own": ends(Fault(message="not so", protocol_code=-1), status="failed"),
    "a method that is not there": ends(Fault(message="not so", protocol_code=-32601), status="failed"),
    "a cancel": ends(None, status="cancelled", code="cancelled"),
    "expired content": ends(None),
    "busy": refuses(Refusal("busy", "too many", retry_after_ms=1000, limit="queue")),
    "a bug": breaks,
}

REPORTS: tuple[TurnEvent | Queued | Attempt, ...] = (
    Progress(progress=0.5, total=2.0, message="halb — half"),
    Queued(3),
    Step(agent="harper", n=1, kind="llm"),
    ToolStarted(call="1", server="s", tool="t"),
    ToolCompleted(call="1", server="s", tool="t", duration_ms=1.0),
    Attempt(2),
    Progress(progress=1e300),
    Progress(progress=2.0, message=""),
    LogMessage(level="debug", data="low"),
    LogMessage(level="warning", data={"a": [None, "\u2028"]}, logger="tool"),
    LogMessage(level="error", data=None),
    LogMessage(level="unknown", data=""),
)

VERSIONS = (MODERN, None, *HANDSHAKE_PROTOCOL_VERSIONS)


class Runner:
    """Runs requests in one event loop."""

    def __init__(self, loop: asyncio.Runner, paths: Paths) -> None:
        self._loop, self.paths = loop, paths

    def run[T](self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self._loop.run(wait())

    def same(self, draft: Draft, script: Script, piece: int = 1 << 20) -> Answered:
        """The answer, which is the same over both paths."""
        asked = draft.asked(piece)
        sdk, own = self.run(self.paths.ask_both(asked, script))
        assert own == sdk
        assert own.complete
        return own


@pytest.fixture(scope="module")
def both() -> Generator[Runner]:
    """A gateway, asked over both paths."""
    with asyncio.Runner() as loop, pytest.MonkeyPatch.context() as monkeypatch:
        made = gateway(monkeypatch)
        yield Runner(loop, loop.run(made.__aenter__()))
        loop.run(made.__aexit__(None, None, None))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("reports", [(), REPORTS], ids=["silent", "talkative"])
def test_a_call_that_takes_the_own_path_is_answered_as_over_the_sdks(
    both: Runner, version: str | None, end: str, reports: tuple[TurnEvent, ...]
) -> None:
    wants = {"progressToken": "mine", f"{META}logLevel": "info"} if version == MODERN else {"progressToken": 5}
    answer = both.same(Draft(version, meta=wants), Script(reports, ENDS[end]))
    assert both.paths.own
    assert answer.status == (
        404
        if end == "a method that is not there" and not reports and version == MODERN
        else 400
        if end == "a protocol error" and not reports and version == MODERN
        else 200
    )
    assert (b"text/event-stream" in dict(answer.headers)[b"content-type"]) == (bool(reports) or version != MODERN)
    assert answer.body.count(b"notifications/progress") == (8 if reports else 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_answer_has_what_a_client_may_take_for_the_end_of_a_line(both: Runner, version: str | None) -> None:
    answer = both.same(Draft(version), Script(REPORTS, ENDS["ends of lines"]))
    *_, last = [line for line in answer.body.decode().splitlines() if '"jsonrpc"' in line]
    assert json.loads(last.removeprefix("data: "))["result"]["structuredContent"] == {LINE_ENDS: LINE_ENDS}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("toil", {"n": 1}, b"done"),
        ("work", {}, b"'n' is required"),
        ("work", {"n": 1, "conversation_id": "c"}, b"done"),
        ("nobody", {}, b"Unknown tool: 'nobody'"),
    ],
)
def test_a_call_is_checked_as_over_the_sdks_path(
    both: Runner, version: str, name: str, arguments: dict[str, Any], said: bytes
) -> None:
    answer = both.same(Draft(version, name, arguments), Script((), ENDS["text"]))
    assert both.paths.own
    assert said in answer.body


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(
    ("tool", "answer", "fault"),
    [
        ("count", Result(structured={"n": 1}), None),
        ("count", Result(structured={"n": "one"}), b"n must be of type number"),
        ("count", Result(structured={}), b"'n' is required"),
        ("count", Result(content=(TEXT,)), b"it needs an object as structured content"),
        ("count", Result(content=(TEXT,), is_error=True), None),
        ("odd", Result(structured={"n": "one"}), None),
    ],
)
def test_an_answer_is_checked_against_the_output_schema_of_its_tool(
    both: Runner, version: str, tool: str, answer: Result, fault: bytes | None
) -> None:
    answered = both.same(Draft(version, tool, {}), Script((), ends(answer)))
    assert both.paths.own
    assert (b"invalid_answer" in answered.body) == (fault is not None)
    assert fault is None or fault in answered.body
    assert (b"structuredContent" in answered.body) == (fault is None and answer.structured is not None)


@pytest.mark.parametrize(
    ("headers", "own"),
    [([(b"mcp-param-city", b"Ulm")], True), ([(b"mcp-param-city", b"Bonn")], False), ([], False)],
)
def test_headers_that_repeat_arguments_are_checked(both: Runner, headers: list[tuple[bytes, bytes]], own: bool) -> None:
    draft = Draft(MODERN, "weather", {"city": "Ulm"})
    draft.headers += headers
    answer = both.same(draft, Script((), ENDS["text"]))
    assert (both.paths.own, answer.status) == (own, 200 if own else 400)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(("header", "status"), [(b"host", 421), (b"origin", 403)])
def test_a_foreign_host_or_origin_is_refused(both: Runner, version: str, header: bytes, status: int) -> None:
    draft = Draft(version)
    draft.headers = [(name, value) for name, value in draft.headers if name != header]
    draft.headers.append((header, b"http://evil.example"))
    assert both.same(draft, Script((), ENDS["text"])).status == status
    assert both.paths.calls.seen == []


def test_the_state_of_a_question_is_understood_over_either_path(both: Runner) -> None:
    sealed: list[str] = []

    def note(connection: Connection) -> Awaitable[object]:
        connection.on_body = lambda body: sealed.append(json.loads(body)["result"]["requestState"])
        return asyncio.sleep(0)

    for own in (False, True):
        both.run(both.paths.ask(Draft(MODERN).asked(), Script((), ENDS["input"]), own=own, connected=note))
    assert len(sealed) == 2
    for state in (*sealed, sealed[0][:-3] + "aaa"):
        draft = Draft(MODERN)
        draft.params |= {"requestState": state, "inputResponses": {}}
        answer = both.same(draft, Script((), ENDS["text"]))
        assert (b"Invalid or expired requestState" in answer.body) == (state not in sealed)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_body_over_the_limit_is_left_to_the_sdk(both: Runner, version: str) -> None:
    draft = Draft(version)
    draft.params["more"] = "x" * MOST_BYTES
    assert both.same(draft, Script((), ENDS["text"])).status == 413
    assert both.paths.own is None


def waiting(arrived: asyncio.Event) -> Script:
    """A turn that says when it runs, and never ends."""
    never = asyncio.Event()

    async def wait() -> None:
        arrived.set()
        await never.wait()

    return Script((Progress(progress=1),), ENDS["text"], wait)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("own", [False, True], ids=["sdk", "own"])
def test_a_caller_that_disconnects_cancels_its_call(both: Runner, version: str, own: bool) -> None:
    arrived = asyncio.Event()

    async def wait_and_leave(connection: Connection) -> None:
        await arrived.wait()
        connection.gone.set()

    asked, script = Draft(version).asked(), waiting(arrived)
    answer = both.run(both.paths.ask(asked, script, own=own, connected=wait_and_leave))
    assert (not answer.complete, answer.seen[1:]) == (True, [{"caller left": version == MODERN}])


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("own", [False, True], ids=["sdk", "own"])
def test_a_request_that_is_cancelled_ends_as_cancelled(both: Runner, version: str, own: bool) -> None:
    arrived = asyncio.Event()

    async def wait_and_cancel(connection: Connection) -> None:
        await arrived.wait()
        assert connection.serving is not None
        connection.serving.cancel()

    asked, script = Draft(version).asked(), waiting(arrived)
    with pytest.raises(asyncio.CancelledError):
        both.run(both.paths.ask(asked, script, own=own, connected=wait_and_cancel))


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("reports", [(), REPORTS], ids=["silent", "talkative"])
def test_a_stream_is_kept_alive_by_the_same_pings(
    both: Runner, monkeypatch: pytest.MonkeyPatch, version: str, reports: tuple[TurnEvent, ...]
) -> None:
    interval = 0.01
    monkeypatch.setattr("agent_gateway.mcp.serve_call.PING_SECONDS", interval)
    monkeypatch.setattr("mcp.server._streamable_http_modern._SSE_PING_INTERVAL", interval)
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", interval)
    answers: list[Answered] = []
    for own in (False, True):
        pinged, begun = asyncio.Event(), time.monotonic()

        async def count(connection: Connection, pinged: asyncio.Event = pinged) -> None:
            connection.on_body = lambda body: pinged.set() if body.count(b": ping") == 3 else None

        asked = Draft(version, meta={"progressToken": 1}).asked()
        script = Script(reports, ENDS["text"], pinged.wait)
        answers.append(both.run(both.paths.ask(asked, script, own=own, connected=count)))
        assert time.monotonic() - begun >= 3 * interval
    assert answers[0] == answers[1]
    assert len(answers[1].pings) == 1


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "progressToken",
    f"{META}logLevel",
    f"{META}protocolVersion",
    f"{META}clientCapabilities",
    f"{META}clientInfo",
    "pallas/idempotency-key",
    "traceparent",
]
HEADERS: dict[bytes, list[bytes]] = {
    b"accept": [b"*/*", b"application/json", b"text/event-stream", b"application/*;q=0.5, text/*", b"text/html"],
    b"content-type": [b"application/json; charset=utf-8", b"Application/JSON", b"text/plain", b"application/jsonx"],
    b"mcp-protocol-version": [MODERN.encode(), LEGACY.encode(), b"2024-11-05", b"2099-01-01", b""],
    b"mcp-method": [b"tools/call", b"tools/list", b"Tools/Call", b""],
    b"mcp-name": [b"work", b"toil", b"=?base64?d29yaw==?=", b"=?base64?d29yaw?="],
    b"mcp-param-city": [b"Ulm", b"=?base64?VWxt?="],
    b"mcp-session-id": [b"session", b""],
    b"host": [b"evil.example", b""],
    b"origin": [b"http://gateway.example", b"http://evil.example"],
    b"content-length": [b"5", b"none", b"99999"],
    b"last-event-id": [b"1"],
}
BODIES: list[Callable[[bytes], bytes]] = [
    lambda body: body[:-1],
    lambda body: b"[" + body + b"]",
    lambda body: b"\xef\xbb\xbf" + body,
    lambda body: body.decode().encode("utf-16"),
    lambda body: body + b" ",
    lambda body: body + body,
    lambda body: body.replace(b'"id"', b'"id": 1, "id"'),
    lambda body: body.replace(b"tools/call", b"tools\\/call"),
    lambda body: body.replace(b"work", b"\xff"),
    lambda body: body.replace(b"work", b"\\ud800"),
    lambda body: body.replace(b'"n": 1', b'"n": NaN'),
    lambda body: body.replace(b'"n": 1', b'"n": 1e400'),
    lambda body: body.replace(b'"n": 1', b'"n": ' + b"[" * 250 + b"]" * 250),
    lambda body: b"",
]
MEMBERS = ("jsonrpc", "id", "method", "params", "result", "error", "more")
PARAMS = ("name", "arguments", "_meta", "inputResponses", "requestState", "task", "more")
WISHES: list[dict[str, Any]] = [{}, {"progressToken": 1}, {"progressToken": "t", f"{META}logLevel": "info"}]
PLAUSIBLE: dict[str, list[Any]] = {
    "id": [0, -1, 2**70, "", "id", "ü\n"],
    "method": ["tools/call", "tools/list", "ping", "notifications/cancelled", "initialize"],
    "name": ["work", "toil", "weather", "nobody"],
    "arguments": [{"n": 1}, {"n": None}, {"city": "Ulm"}, {}],
    "task": [{}, {"ttl": 5}],
    "progressToken": [1, "token", True, 1.5],
    f"{META}logLevel": ["debug", "info", "critical"],
    f"{META}clientCapabilities": [{"sampling": {}}, {"elicitation": {"form": {}}}, {"more": 1}],
    "pallas/idempotency-key": ["key", ""],
    "traceparent": ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
}


def value_of(draw: DrawFn, key: str) -> Any:
    plausible = PLAUSIBLE.get(key)
    return draw(st.sampled_from(plausible) if plausible and draw(st.integers(0, 3)) else JSON)


def change(draw: DrawFn, fields: dict[str, Any], key: str) -> None:
    if draw(st.integers(0, 3)):
        fields[key] = value_of(draw, key)
    else:
        fields.pop(key, None)


def change_headers(draw: DrawFn, draft: Draft) -> None:
    name = draw(st.sampled_from(list(HEADERS)))
    kept = [(known, value) for known, value in draft.headers if known != name or draw(st.integers(0, 3)) == 0]
    added = [(name, draw(st.sampled_from(HEADERS[name])))] if draw(st.integers(0, 3)) else []
    draft.headers = [*kept, *added]


@st.composite
def drafts(draw: DrawFn) -> Draft:
    """A `tools/call`: well-formed, or with up to three changes of anything in it."""
    draft = Draft(draw(st.sampled_from(VERSIONS)), meta=draw(st.sampled_from(WISHES)))
    for _ in range(draw(st.sampled_from((0, 1, 1, 2, 3)))):
        match draw(st.integers(0, 7)):
            case 0 | 1:
                change_headers(draw, draft)
            case 2:
                change(draw, draft.message, draw(st.sampled_from(MEMBERS)))
            case 3 | 4:
                change(draw, draft.params, draw(st.sampled_from(PARAMS)))
            case 5 | 6:
                change(draw, draft.meta, draw(st.sampled_from(KEYS)))
            case _:
                draft.rewrite = draw(st.sampled_from(BODIES))
    return draft


def single_changes(version: str | None) -> list[Draft]:
    """Requests of which one thing is unusual."""
    drafts: list[Draft] = []

    def another() -> Draft:
        drafts.append(Draft(version))
        return drafts[-1]

    for name, values in HEADERS.items():
        another().headers.append((name, values[0]))
        for value in (None, *values):
            draft = another()
            draft.headers = [(known, kept) for known, kept in draft.headers if known != name]
            draft.headers += [(name, value)] if value is not None else []
    for rewrite in BODIES:
        another().rewrite = rewrite
    for where, keys in enumerate((MEMBERS, PARAMS, KEYS)):
        for key in keys:
            another().fields[where].pop(key, None)
            for value in (None, True, 1, 1.5, "text", [1], {"a": 1}, *PLAUSIBLE.get(key, ())):
                another().fields[where][key] = value
    another().message |= {"method": "ping", "more": "tools/call"}
    return drafts


@pytest.mark.parametrize("version", [MODERN, LEGACY, None])
def test_an_unusual_request_is_answered_as_over_the_sdks_path(both: Runner, version: str | None) -> None:
    for draft in single_changes(version):
        both.same(draft, Script(REPORTS[:3], ENDS["text"]))


@settings(max_examples=600, deadline=None)
@given(
    drafts(),
    st.lists(st.sampled_from(REPORTS), max_size=4).map(tuple),
    st.sampled_from(list(ENDS)),
    st.sampled_from((1 << 20, 100)),
)
def test_any_request_is_answered_as_over_the_sdks_path(
    both: Runner, draft: Draft, reports: tuple[TurnEvent, ...], end: str, piece: int
) -> None:
    both.same(draft, Script(reports, ENDS[end]), piece)
