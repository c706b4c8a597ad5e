"""`pallas data-agent run` loads agents, and `pallas rpc` calls them."""

import json
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pallas_cli.commands.data_agent import load_agents
from pallas_cli.main import commands
from pallas_cli.refused import Refused

AGENTS = """
from pallas_data_agent import DataAgent
one, two = DataAgent("one"), DataAgent("two")
both, mixed = [one, two], [one, 2]
"""


@dataclass
class Gateway:
    """Answers every POST with `answer` and keeps the requests: path, bearer and body."""

    url: str = ""
    status: int = 200
    answer: Any = field(
        default_factory=lambda: {"jsonrpc": "2.0", "id": 1, "result": {"é": 1}, "meta": {"status": "success"}}
    )
    requests: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list[Any])


@pytest.fixture
def gateway() -> Generator[Gateway]:
    """A server in the gateway's place."""
    playing = Gateway()

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            playing.requests.append((self.path, self.headers["Authorization"], json.loads(body)))
            self.send_response(playing.status)
            self.end_headers()
            self.wfile.write(json.dumps(playing.answer).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        playing.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield playing
        server.shutdown()


def rpc(gateway: Gateway, *words: str, given: str | None = None) -> tuple[int, str]:
    """Run `pallas rpc`; return exit code and standard output."""
    result = CliRunner().invoke(commands, ["rpc", *words, "--url", gateway.url], input=given)
    if isinstance(result.exception, Refused):
        return result.exception.code, str(result.exception)
    return result.exit_code, result.stdout


def test_a_call_is_a_request_to_the_gateway_and_its_result_is_printed(gateway: Gateway) -> None:
    options = ("--task", "task_001", "--timeout", "2", "--key", "once", "--token", "a.b")
    assert rpc(gateway, "news_fetcher", "fetch", '{"symbol": "AAPL"}', *options) == (0, '{\n  "é": 1\n}\n')
    [(path, bearer, request)] = gateway.requests
    assert (path, bearer) == ("/rpc", "Bearer a.b")
    assert (
        request["params"].pop("meta").items()
        >= {
            "task_id": "task_001",
            "timeout": 2.0,
            "idempotency_key": "once",
        }.items()
    )
    assert request == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "agent.execute",
        "params": {"agent_id": "news_fetcher", "function": "fetch", "input": {"symbol": "AAPL"}},
    }


def test_a_team_is_in_the_path_and_the_input_may_come_from_standard_input(gateway: Gateway) -> None:
    assert rpc(gateway, "demo/harper", "harper", "-", given='{"message": "x"}')[0] == 0
    assert rpc(gateway, "demo/harper", "harper")[0] == 0
    assert [path for path, _, _ in gateway.requests] == ["/teams/demo/rpc"] * 2
    first, second = (request["params"] for _, _, request in gateway.requests)
    assert (first["agent_id"], first["input"], second["input"]) == ("harper", {"message": "x"}, {})
    assert first["meta"]["task_id"] != second["meta"]["task_id"]
    assert first["meta"].keys() == {"task_id", "timestamp"}


def test_an_error_is_printed_with_its_code_and_ends_with_exit_code_1(gateway: Gateway) -> None:
    gateway.answer = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}
    assert rpc(gateway, "a", "b") == (1, "Method not found (-32601)")


def test_an_error_has_the_word_of_the_turn_and_the_whole_response(gateway: Gateway) -> None:
    data = {"code": "busy", "retryable": True}
    gateway.answer = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "no room", "data": data}}
    with pytest.raises(Refused) as refused:
        commands(["rpc", "a", "b", "--json", "--url", gateway.url], standalone_mode=False)
    assert refused.value.as_json() == {"code": "busy", "message": "no room (-32001)", "details": gateway.answer}


def test_json_is_the_whole_response_on_one_line(gateway: Gateway) -> None:
    code, printed = rpc(gateway, "a", "b", "--json")
    assert (code, json.loads(printed), printed.count("\n")) == (0, gateway.answer, 1)


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("a", "b", "[]"), 2, "must be a JSON object"),
        (("a", "b", "{"), 2, "the input is not JSON"),
        (("a", "b", '{"c": NaN}'), 2, "the input is not JSON: NaN is not JSON"),
        (("a", "b", '{"c": "\\ud800"}'), 2, "the input is not JSON: a text has a lone surrogate"),
        (("a", "b", '{"c": 1, "c": 2}'), 2, "the input is not JSON: an object has the key 'c' twice"),
    ],
)
def test_input_that_is_no_object_is_not_sent(gateway: Gateway, words: tuple[str, ...], code: int, reason: str) -> None:
    ended, said = rpc(gateway, *words)
    assert (ended, reason in said, gateway.requests) == (code, True, [])


def test_something_else_than_a_gateway_is_named(gateway: Gateway) -> None:
    gateway.answer, gateway.status = {"detail": "Not Found"}, 404
    assert rpc(gateway, "a", "b") == (1, f"{gateway.url}/rpc answers with HTTP status 404, but not as a gateway")
    gateway.url = "http://127.0.0.1:1"
    assert rpc(gateway, "a", "b")[1].startswith(
        "the gateway at http://127.0.0.1:1 cannot be reached; is `pallas up` running?"
    )


def test_agents_are_loaded_from_a_file_and_from_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded_from_file.py").write_text(AGENTS)
    (tmp_path / "loaded_by_name.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert [each.agent_id for each in load_agents("loaded_from_file.py:one")] == ["one"]
    assert [each.agent_id for each in load_agents("loaded_by_name:both")] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("agents", "write it as MODULE:AGENT"),
        ("nowhere.py:agent", "there is no file nowhere.py"),
        ("no_such_module.inside:agent", "there is no module 'no_such_module.inside'"),
        ("json.py:agent", "there is another module 'json'"),
        ("refused_agents.py:three", "has no data agent"),
        ("refused_agents.py:mixed", "has no data agent"),
    ],
)
def test_what_is_no_agent_is_refused(name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("refused_agents.py", "json.py"):
        (tmp_path / file).write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "refused_agents", raising=False)
    with pytest.raises(Refused, match=reason):
        load_agents(name)


def test_an_error_of_the_module_itself_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("broken_file", "broken_module"):
        (tmp_path / f"{name}.py").write_text("import no_such_module")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("broken_file.py:x", "broken_module:x"):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            load_agents(name)


@pytest.mark.parametrize(
    ("reason", "known", "hint"),
    [
        ("unknown function", ["wait", "words"], "; did you mean 'wait'?"),
        ("unknown agent", ["wayt", "prices"], "; did you mean 'prices'?"),
    ],
)
def test_an_unknown_name_comes_with_those_that_are_like_it(
    gateway: Gateway, reason: str, known: list[str], hint: str
) -> None:
    gateway.status, data = 404, {"reason": reason, "known": known}
    gateway.answer = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found", "data": data}}
    result = CliRunner().invoke(commands, ["rpc", "price", "wayt", "--url", gateway.url])
    assert str(result.exception) == f"Method not found (-32601){hint}"
