"""Tutorials, carried out as they are written."""

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.e2e.documents import blocks, lines_to_run, moved, run
from tests.e2e.stack import Stack

DOCS = Path(__file__).parents[2] / "docs"
TROUBLE = "when-it-does-not-work.md"
TEAMS = {"first-team.md": "my-team", "first-python-agent.md": "shop"}

pytestmark = pytest.mark.timeout(240)


def shell(folder: Path, script: str) -> str:
    """What a block prints, run in `folder` with the commands of this environment in place of those of `uv run`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("uv run ", "")],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Path, Stack]]:
    """A folder with the teams that the first block of each tutorial makes, and a stack that hosts them."""
    folder = tmp_path_factory.mktemp("walk")
    for page in TEAMS:
        shell(folder, blocks(DOCS / "tutorials" / page, "sh")[0])
    teams = [word for team in TEAMS.values() for word in ("--teams", str(folder / team))]
    with Stack(folder / "stack", *teams) as stack:
        stack.until_ready()
        (folder / ".pallas").symlink_to(folder / "stack" / "data")
        yield folder, stack


def carried_out(page: str, walk: tuple[Path, Stack], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the commands of a tutorial print that come after the start. Ports are moved to those of the stack."""
    folder, stack = walk
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    made, started, *_ = blocks(DOCS / "tutorials" / page, "sh")
    assert f"mkdir -p {TEAMS[page]}" in made
    assert f"pallas up --teams {TEAMS[page]}" in started
    for program in blocks(DOCS / "tutorials" / page, "python"):
        [name] = re.findall(r"`python (\w+\.py)", program)
        Path(name).write_text(moved(program, stack), "utf-8")
    _, *lines = lines_to_run(DOCS / "tutorials" / page, behind=f"pallas up --teams {TEAMS[page]}")
    done = [(line, *run(moved(line, stack))) for line in lines]
    assert [(line, printed) for line, succeeded, printed in done if not succeeded] == []
    return "".join(printed for _, _, printed in done)


def test_the_first_team_answers_in_a_terminal_and_to_a_program(
    walk: tuple[Path, Stack], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = carried_out("first-team.md", walk, monkeypatch)
    assert printed.count("**Agents I can ask**") == 2, "the writer was called twice"
    assert "Echo: Their are two of us" in printed
    assert "my-team/writer" in printed


def test_the_first_python_agent_takes_an_order(walk: tuple[Path, Stack], monkeypatch: pytest.MonkeyPatch) -> None:
    printed = carried_out("first-python-agent.md", walk, monkeypatch)
    assert "Walden is ordered as R-6: in stock" in printed
    assert "shop/orders" in printed


def test_the_first_command_of_the_page_about_trouble_finds_nothing_wrong_here(
    walk: tuple[Path, Stack], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(walk[0])
    monkeypatch.setenv("HOME", str(walk[0]))
    [doctor, *_] = lines_to_run(DOCS / "how-to" / TROUBLE, there="a stack in which nothing is wrong")
    assert run(doctor)[0], run(doctor)[1]
