"""Runs the commands of a document as a reader would: in order, in one folder, saying yes to every question.

`pallas` runs in this process, since the start of a process takes longer than most commands; all else runs in a shell.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from tests.e2e.stack import Stack
from typer.testing import CliRunner

from pallas_cli.main import commands

BLOCK = re.compile(r"^( *)```(sh|console)((?: [^\n]*)?)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r' needs="([^"]+)"')

_PLAIN = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"(127\.0\.0\.1|localhost):(23\d{3})")
_BASE = 23030
_PALLAS = re.compile(r"(?:uv run )?pallas ([^|<>]*)")
_TURN = re.compile(r"\b[0-9a-f]{32}\b")
_ROOT = typer.main.get_command(commands)
_NAMES = {
    "FAILED_TURN": (("turns", "list", "--state", "failed"), r"^([0-9a-f]{32})"),
    "TURN": (("turns", "list", "--state", "completed"), r"^([0-9a-f]{32})"),
    "TEAM": (("teams", "list"), r"^(\S+) +(?:Kottos|Support) +active"),
    "TOKEN": (("tokens", "list", "--user", "ann"), r"^([0-9a-f-]{36})"),
    "KEY": (("keys", "list"), r"^(\w+-[0-9a-f]+)"),
}
"""What words in capitals stand for: the first match in what a command prints."""


def moved(text: str, stack: Stack) -> str:
    """A text with the addresses of a stack in place of the default ones."""
    return _PORT.sub(lambda port: f"{port[1]}:{int(port[2]) - _BASE + stack.base}", text)


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a language on a page that need nothing but a stack."""
    return [text for name, text in _PLAIN.findall(page.read_text("utf-8")) if name == language]


def lines_to_run(page: Path, *, behind: str = "", there: str = "") -> list[str]:
    """The commands of the blocks that need nothing but a stack, or need what is `there`.

    Of a transcript, those behind a dollar. The one with the text `behind` is the first.
    """
    found: list[str] = []
    for _, language, needs, text in BLOCK.findall(page.read_text("utf-8")):
        if (needed := NEEDS.fullmatch(needs)) and needed[1] != there:
            continue
        typed = text if language == "sh" else "\n".join(re.findall(r"^ *\$ (.*)", text, re.MULTILINE))
        found += _commands(typed)
    return found[next((at for at, line in enumerate(found) if behind in line), 0) :]


def _commands(text: str) -> Iterator[str]:
    """Each command of a script; one goes on while a quote is open or its line ends with a backslash."""
    begun = ""
    for line in text.splitlines():
        begun = f"{begun}\n{line}" if begun else line.strip()
        if begun.endswith("\\") or not _is_whole(begun):
            continue
        if begun:
            yield begun
        begun = ""


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def run(line: str) -> tuple[bool, str]:
    """Run a command in the working folder. Returns whether it succeeded, and what it printed."""
    if (found := _PALLAS.fullmatch(line.strip())) is None:
        return _in_a_shell(line)
    code, printed = pallas(*(_filled(word) for word in shlex.split(found[1], comments=True)))
    return code == 0, printed


def pallas(*words: str) -> tuple[int, str]:
    """Exit code and output of a command; with `--yes` if it would ask."""
    expanded = [os.path.expanduser(word) for word in words]
    done = CliRunner().invoke(commands, [*expanded, *_yes(expanded)])
    return done.exit_code, done.output + (f"{done.exception}" if done.exit_code else "")


def _filled(word: str) -> str:
    """The word, or what it stands for."""
    if word in _NAMES:
        command, pattern = _NAMES[word]
        _, printed = pallas(*command)
        match = re.search(pattern, printed, re.MULTILINE)
        return match[1] if match else word
    return _filled("TURN") if _TURN.fullmatch(word) else word


def _yes(words: list[str]) -> list[str]:
    command: Any = _ROOT
    for word in words:
        command = (command.get_command(None, word) if hasattr(command, "get_command") else None) or command
    asks = any("--yes" in parameter.opts for parameter in command.params)
    return ["--yes"] if asks and "--yes" not in words else []


def _in_a_shell(line: str) -> tuple[bool, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = ["bash", "-euo", "pipefail", "-c", line.replace("uv run ", "")]
    done = subprocess.run(
        script, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr
