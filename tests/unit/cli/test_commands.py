"""Commands that start nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from pallas_cli import main
from pallas_cli.reference import leaves
from pallas_cli.refused import NotReachable, Refused, WrongUsage, not_there

AGENTS = "name: tiny\nagents:\n  solo: {title: Solo, description: One., model: offline, instruction: Hello.}\n"


def run(*words: str) -> tuple[int, str]:
    """Run the command; return exit code and output."""
    result = CliRunner().invoke(main.commands, list(words))
    return result.exit_code, result.output


def test_every_command_that_connects_to_a_stack_has_the_option_data() -> None:
    """Its broker is at `--nats`; team-lifecycle, the library search or the gateway is at `--url`."""
    options = {
        words: {option for parameter in leaf.params for option in parameter.opts}
        for words, leaf in leaves(get_command(main.commands))
    }
    connecting = [name for name in options if options[name] & {"--nats", "--url"}]
    assert len(connecting) > 40
    assert [name for name in connecting if "--data" not in options[name]] == []


def test_the_help_imports_no_heavy_library() -> None:
    script = """if True:
        import io, sys, contextlib, pallas_cli.main
        with contextlib.redirect_stdout(io.StringIO()):
            pallas_cli.main.commands(["--help"], standalone_mode=False)
        print(*sys.modules)
    """
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"mcp", "pydantic", "rich.console", "asyncio", "nats", "yaml"} & set(loaded)


def test_a_good_team_folder_is_described(tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text(AGENTS)
    code, output = run("agents", "validate", str(tmp_path))
    assert code == 0
    assert "team tiny with solo" in output


def test_every_fault_of_a_team_folder_is_printed(tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text(AGENTS + "colour: red\nspeed: 3\n")
    code, output = run("agents", "validate", str(tmp_path))
    assert code == 1
    assert "agents.yaml:4:1" in output
    assert "agents.yaml:5:1" in output


def test_faults_can_be_printed_as_json(tmp_path: Path) -> None:
    code, output = run("agents", "validate", "--json", str(tmp_path / "missing"))
    document = json.loads(output)
    assert code == 1
    assert document["valid"] is False
    assert document["faults"][0]["message"] == "is not a folder"


@pytest.mark.parametrize(
    ("error", "code", "word"), [(Refused, 1, "refused"), (WrongUsage, 2, "usage"), (NotReachable, 3, "unreachable")]
)
def test_a_refusal_is_a_line_for_each_fault_or_one_document_with_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: type[Refused], code: int, word: str
) -> None:
    def refuse(standalone_mode: bool) -> None:
        raise error("first", "second")

    monkeypatch.setattr(main, "commands", refuse)
    assert said(monkeypatch, capsys, "x") == (code, "", "pallas: first\npallas: second\n")
    exit_code, out, err = said(monkeypatch, capsys, "x", "--json")
    assert (exit_code, out) == (code, "")
    assert json.loads(err) == {"code": word, "message": "first; second", "details": {"lines": ["first", "second"]}}


def test_a_name_that_is_unknown_comes_with_those_that_are_like_it() -> None:
    error = not_there("agent", "harpr", {"harper", "writer"}, otherwise="; `pallas agents list` shows all agents")
    assert error.lines == ("there is no agent 'harpr'; did you mean 'harper'?",)
    assert error.as_json()["details"] == {"did_you_mean": ["harper"]}
    assert not_there("agent", "x", {"harper"}, otherwise="; look").lines == ("there is no agent 'x'; look",)


def test_a_wrong_option_is_a_document_with_json_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = said(monkeypatch, capsys, "users", "list", "--colour", "--json")
    assert (code, json.loads(err)["code"]) == (2, "usage")
    assert "--colour" in json.loads(err)["message"]


def test_an_argument_that_is_no_text_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(monkeypatch, capsys, "chat", "writer", "--message", "\udcff")
    assert (code, out, err) == (2, "", "pallas: argument 4 is not UTF-8 text: '\\udcff'\n")


@pytest.mark.parametrize("json_too", [(), ("--json",)])
def test_a_full_disk_is_an_error_without_a_traceback(json_too: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        result = pallas("context", "list", *json_too, stdout=full)
    assert (result.returncode, "No space left on device" in result.stderr) == (1, True)
    assert "Traceback" not in result.stderr


def test_a_reader_that_has_gone_is_no_error_to_speak_of() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = pallas("context", "list", stdout=writing)
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


def test_a_command_that_is_interrupted_while_it_is_imported_ends_without_a_traceback() -> None:
    script = (
        "import sys, types\n"
        "class Interrupted(types.ModuleType):\n"
        "    def __getattr__(self, name): raise KeyboardInterrupt\n"
        "sys.modules['pallas_cli.main'] = Interrupted('main')\n"
        "from pallas_cli.start import app; app()"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (130, "")


def pallas(*words: str, stdout: IO[str] | int) -> "subprocess.CompletedProcess[str]":
    """Run the command as a process that writes to `stdout`."""
    command = [sys.executable, "-m", "pallas_cli", *words]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int | str | None, str, str]:
    """Run the command as its entry point does. Returns exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["pallas", *words])
    with pytest.raises(SystemExit) as exit_:
        main.app()
    printed = capsys.readouterr()
    return exit_.value.code, printed.out, printed.err
