"""Tutorials and how-to guides, carried out as they are written."""

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.e2e.auth_stack import AuthStack
from tests.e2e.stack import Stack

DOCS = Path(__file__).parents[2] / "docs"
TEAMS = {"first-team.md": "my-team", "first-python-agent.md": "shop"}

pytestmark = pytest.mark.timeout(240)

_BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"127\.0\.0\.1:(23\d{3})")
_BASE = 23030


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a language on a page."""
    return [text for name, text in _BLOCK.findall(page.read_text("utf-8")) if name == language]


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


def moved(text: str, stack: Stack) -> str:
    """A text with the addresses of a stack in place of the default ones."""
    return _PORT.sub(lambda port: f"127.0.0.1:{int(port[1]) - _BASE + stack.base}", text)


def carried_out(page: str, walk: tuple[Path, Stack]) -> str:
    """What the blocks of a tutorial print that come after the start. Ports are moved to those of the stack."""
    folder, stack = walk
    made, started, *rest = blocks(DOCS / "tutorials" / page, "sh")
    assert f"mkdir -p {TEAMS[page]}" in made
    assert f"pallas up --teams {TEAMS[page]}" in started
    for program in blocks(DOCS / "tutorials" / page, "python"):
        [name] = re.findall(r"`python (\w+\.py)", program)
        (folder / name).write_text(moved(program, stack), "utf-8")
    return "".join(shell(folder, moved(block, stack)) for block in rest)


def test_the_first_team_answers_in_a_terminal_and_to_a_program(walk: tuple[Path, Stack]) -> None:
    printed = carried_out("first-team.md", walk)
    assert "Echo: Hello\n" in printed
    assert "Echo: Their are two of us" in printed
    assert "Echo: Hello from Python" in printed
    assert "my-team/writer" in printed


def test_the_first_python_agent_takes_an_order(walk: tuple[Path, Stack]) -> None:
    printed = carried_out("first-python-agent.md", walk)
    assert "Walden is ordered as R-6: in stock" in printed
    assert "shop/orders" in printed


HOW_TO = [page for page in sorted((DOCS / "how-to").glob("*.md")) if blocks(page, "sh")]


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_the_commands_of_a_how_to_guide_work(page: Path, auth_stack: AuthStack, tmp_path: Path) -> None:
    (tmp_path / ".pallas").symlink_to(auth_stack.ready["data"])
    for block in blocks(page, "sh"):
        assert shell(tmp_path, moved(block, auth_stack.stack))
