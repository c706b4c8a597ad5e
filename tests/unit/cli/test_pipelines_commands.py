"""`pallas pipelines` against a server that plays the HTTP API of pipelines."""

import json
import os
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pallas_cli.main import commands
from pallas_cli.pipelines import Source, fault_lines
from pallas_cli.refused import Refused

HASH = "ab" * 32
DONE = {
    "success": True,
    "outputs": {"x": 3},
    "status": "completed",
    "executionId": "exec-1",
    "metrics": {"compileTimeMs": 1, "executeTimeMs": 12, "modulesExecuted": 2},
}


@dataclass
class Service:
    """Answers each path with what is put in `answers`: a status and a document or a text; and keeps the requests."""

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict[str, tuple[int, Any]])
    events: list[str] = field(default_factory=list[str])
    requests: list[tuple[str, str | None, Any]] = field(default_factory=list[tuple[str, str | None, Any]])
    told: threading.Event = field(default_factory=threading.Event)


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/events") and service.events:
                self.send_response(200)
                self.end_headers()
                self.wfile.write("".join(f"event: node\ndata: {event}\n\n" for event in service.events).encode())
                self.wfile.flush()
                service.told.set()
                return
            service.requests.append((self.path, self.headers["Authorization"], None))
            self._answer()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.headers["X-Constellation-Request-ID"].startswith("cli-")
            service.requests.append((self.path, self.headers["Authorization"], body))
            self._answer()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nothing: standard error is the command's."""

        def _answer(self) -> None:
            status, answer = service.answers.get(self.path, (404, {"error": "NotFound", "message": "Not found"}))
            self.send_response(status)
            if service.events:
                self.send_header("X-Constellation-Execution-ID", "exec-1")
            self.end_headers()
            self.wfile.flush()
            if service.events:
                service.told.wait(10)
            self.wfile.write((answer if isinstance(answer, str) else json.dumps(answer)).encode())

    return Answering


@pytest.fixture
def service() -> Generator[Service]:
    """A server in the place of pipelines."""
    playing = Service()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(playing)) as server:
        playing.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield playing
        server.shutdown()


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A file with a program."""
    path = tmp_path / "order.cst"
    path.write_text("in a: Int\n\tx = fo(a)\nout x\n")
    return str(path)


def pipelines(service: Service, *words: str, given: str | None = None) -> tuple[int, str, str]:
    """Run `pallas pipelines`; return exit code, standard output and standard error."""
    result = CliRunner().invoke(commands, ["pipelines", *words, "--url", service.url], input=given)
    if isinstance(result.exception, Refused):
        return result.exception.code, "", str(result.exception)
    return result.exit_code, result.stdout, result.stderr


FAULT = {"line": 2, "column": 6, "code": "E002", "message": "Undefined function: fo"}
SHOWN = "{file}:2:6: E002 Undefined function: fo\n  \tx = fo(a)\n  \t    ^\n"


def test_validate_shows_each_fault_under_its_line(service: Service, program: str) -> None:
    service.answers["/validate"] = 200, {"valid": False, "errors": [FAULT], "warnings": []}
    assert pipelines(service, "validate", program, "--token", "a.b") == (1, "", SHOWN.format(file=program))
    assert service.requests == [("/validate", "Bearer a.b", {"source": Path(program).read_text()})]
    code, out, _ = pipelines(service, "validate", program, "--json")
    assert (code, json.loads(out)) == (1, service.answers["/validate"][1])


def test_validate_of_a_good_program_shows_warnings(service: Service) -> None:
    service.answers["/validate"] = 200, {"valid": True, "warnings": [{"line": 1, "column": 4, "message": "not used"}]}
    code, out, err = pipelines(service, "validate", "-", given="\ufeffin a: Int\nout a")
    assert (code, out) == (0, "standard input: valid\n")
    assert err == "standard input:1:4: warning: not used\n  in a: Int\n     ^\n"


def test_compile_shows_the_signature(service: Service, program: str) -> None:
    found = {"inputs": {"a": "Int", "b": "String"}, "outputs": {"x": "Int"}, "structuralHash": HASH, "name": "order"}
    service.answers["/compile"] = 200, {"success": True, "errors": [], "storedAs": "user:alice/order", **found}
    code, out, _ = pipelines(service, "compile", program, "--name", "order")
    assert (code, service.requests[0][2]["name"]) == (0, "order")
    facts = ["name: order", f"hash: {HASH}", "stored as: user:alice/order"]
    assert out.splitlines() == [*facts, "inputs:", "  a: Int", "  b: String", "outputs:", "  x: Int"]


def test_a_program_that_does_not_compile_is_shown_with_its_faults(service: Service, program: str) -> None:
    refused = {"success": False, "errors": ["Undefined function: fo"]}
    service.answers["/compile"] = 400, {**refused, "diagnostics": [FAULT]}
    assert pipelines(service, "compile", program) == (1, "", SHOWN.format(file=program))
    service.answers["/compile"] = 400, refused
    assert pipelines(service, "compile", program) == (1, "", f"{program}: Undefined function: fo\n")
    service.answers["/run"] = 400, {"success": False, "compilationErrors": ["Undefined function: fo"]}
    code, out, err = pipelines(service, "run", program)
    assert (code, out, err.splitlines()[1:]) == (1, "", [f"{program}: Undefined function: fo"])


def test_run_sends_the_program_and_the_inputs(service: Service, program: str, tmp_path: Path) -> None:
    service.answers["/run"] = 200, DONE
    (tmp_path / "inputs.json").write_text('{"a": 1, "c": [true]}')
    values = ("--input", "a=2", "--input", "b=x=y", "--input", 'd="7"', "--inputs", str(tmp_path / "inputs.json"))
    code, out, err = pipelines(service, "run", program, *values)
    assert (code, json.loads(out)) == (0, {"x": 3})
    assert err.splitlines() == [f"running {program}", "completed in 12 ms, modules executed: 2, execution exec-1"]
    assert service.requests[0][2]["inputs"] == {"a": 2, "c": [True], "b": "x=y", "d": "7"}


def test_run_reads_a_program_from_a_named_pipe(service: Service, tmp_path: Path) -> None:
    service.answers["/run"] = 200, DONE
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=["in a: Int\nout a"])
    writing.start()
    assert pipelines(service, "run", str(pipe))[0] == 0
    writing.join()
    assert service.requests[0][2]["source"] == "in a: Int\nout a"


def test_run_of_a_stored_pipeline_names_it(service: Service) -> None:
    service.answers["/execute"] = 200, DONE
    code, out, err = pipelines(service, "run", "user:alice/order", "--json", "--inputs", "-", given='{"a": 1}')
    assert (code, json.loads(out), err) == (0, DONE, "")
    assert service.requests[0][2] == {"ref": "user:alice/order", "inputs": {"a": 1}}


def test_a_run_that_fails_or_lacks_inputs_ends_with_exit_code_1(service: Service) -> None:
    service.answers["/execute"] = 200, {"success": False, "status": "failed", "error": "fetch: gone", "outputs": {}}
    assert pipelines(service, "run", "order") == (1, "", "running order\nfailed: fetch: gone\n")
    missing = {"success": True, "status": "suspended", "missingInputs": {"a": "Int"}, "outputs": {}}
    service.answers["/execute"] = 200, {**missing, "executionId": "exec-2"}
    code, out, err = pipelines(service, "run", "order")
    assert (code, out) == (1, "")
    assert err.splitlines()[1:] == ["these inputs are missing: a: Int", "suspended, execution exec-2"]


def test_a_run_tells_what_happens_meanwhile(service: Service) -> None:
    service.answers["/execute"] = 200, DONE
    service.events = ['{"message": "demo.get: started"}', "plain"]
    code, _, err = pipelines(service, "run", "order")
    assert (code, err.splitlines()[:3]) == (0, ["running order", "demo.get: started", "plain"])


def test_show_prints_the_signature_the_source_and_the_pictures(service: Service, tmp_path: Path) -> None:
    path = "/pipelines/user%3Aalice%2Forder"
    document = {"name": "user:alice/order", "structuralHash": HASH, "inputs": {"a": "Int"}, "outputs": {"x": "Int"}}
    service.answers[path] = 200, {**document, "modules": [{"name": "demo.get"}], "source": "in a: Int\nout a\n"}
    service.answers[f"{path}/dag.mmd"] = 200, "flowchart LR\n"
    service.answers[f"{path}/dag.svg"] = 200, "<svg/>\n"
    code, out, _ = pipelines(service, "show", "user:alice/order")
    assert code == 0
    assert 'modules: ["demo.get"]\n' in out
    assert out.endswith("outputs:\n  x: Int\n\nin a: Int\nout a\n")
    picture = tmp_path / "dag.svg"
    code, out, _ = pipelines(service, "show", "user:alice/order", "--mermaid", "--svg", str(picture))
    assert (code, out, picture.read_text()) == (0, "flowchart LR\n", "<svg/>\n")


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (404, {"error": "NotFound", "message": "Pipeline 'order' not found"}, "Pipeline 'order' not found"),
        (403, {"error": "Forbidden", "message": "The scope execute is needed"}, "The scope execute is needed"),
        (502, "<html>", "answers with HTTP status 502, but not as the pipelines service"),
        (200, "[]", "answers with HTTP status 200, but not as the pipelines service"),
        (500, {"detail": 1}, "answers with HTTP status 500, but not as the pipelines service"),
    ],
)
def test_a_refusal_is_a_line_and_exit_code_1(service: Service, status: int, answer: Any, reason: str) -> None:
    service.answers["/pipelines/order"] = service.answers["/execute"] = status, answer
    for command in ("show", "run"):
        code, _, said = pipelines(service, command, "order")
        assert code == 1
        assert reason in said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("validate", "missing.cst"), "missing.cst: No such file or directory"),
        (("run", "missing.cst"), "missing.cst: No such file or directory"),
        (("run", "order", "--input", "a"), "'a': write an input as NAME=VALUE"),
        (("run", "order", "--inputs", "-"), "the inputs must be a JSON object"),
        (("run", "-", "--inputs", "-"), "only one of the program and the inputs"),
    ],
)
def test_wrong_usage_is_not_sent(service: Service, words: tuple[str, ...], reason: str) -> None:
    code, _, said = pipelines(service, *words, given="[]")
    assert (code, reason in said, service.requests) == (2, True, [])


def test_a_service_that_is_not_there_is_told() -> None:
    for command in ("show", "run"):
        code, _, said = pipelines(Service("http://127.0.0.1:1"), command, "order")
        assert code == 3
        assert "cannot be reached: no connection" in said


def test_a_long_line_is_shown_around_its_fault_and_controls_are_escaped() -> None:
    source = Source("x.cst", "a" * 300 + "\x1bB" + "c" * 300)
    _, line, caret = fault_lines(source, [{"line": 1, "column": 302, "code": "E020", "message": "no"}])
    assert len(line) < 130
    assert line[caret.index("^")] == "B"
    assert "\\x1bB" in line
    assert list(fault_lines(Source("x", ""), [{"line": 9, "column": 0, "message": "no"}])) == ["x:9:0: no"]
