"""Options that commands share: which part of a list, and whether a change is wanted."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pallas_cli.options import Page
from pallas_cli.refused import WrongUsage

ROWS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("page", "rows", "said"),
    [
        (Page(), ROWS, ""),
        (Page(3), ROWS, ""),
        (Page(2), ["a", "b"], "more: --after b\n"),
        (Page(1, "a"), ["b"], "more: --after b\n"),
        (Page(2, "a"), ["b", "c"], ""),
        (Page(None, "c"), [], ""),
    ],
)
def test_a_part_ends_with_where_the_next_one_begins(
    page: Page, rows: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (page.cut(ROWS, str), capsys.readouterr().err) == (rows, said)


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(WrongUsage, match="no row 'x'"):
        Page(after="x").cut(ROWS, str)


SCRIPT = """
import asyncio, typer
from pallas_cli import main
from pallas_cli.options import confirm

main.commands = typer.Typer(pretty_exceptions_enable=False)

@main.commands.command()
def ask(where: str):
    async def in_a_loop():
        confirm("all is lost", yes=False, as_json=False)

    asyncio.run(in_a_loop()) if where == "loop" else confirm("all is lost", yes=False, as_json=False)

main.app()
"""


@pytest.mark.parametrize(
    ("where", "typed", "code", "said"),
    [
        ("loop", "y\n", 0, ""),
        ("loop", "n\n", 1, "not confirmed"),
        ("loop", "\x04", 1, "not confirmed"),
        ("loop", "\x03", 130, ""),
        ("no loop", "\x03", 130, ""),
    ],
)
def test_a_question_ends_by_its_answer_or_by_ctrl_c_at_once(where: str, typed: str, code: int, said: str) -> None:
    screen, terminal = pty.openpty()
    command = [sys.executable, "-c", SCRIPT, where]
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True, preexec_fn=_own_terminal
    ) as process:
        os.close(terminal)
        try:
            seen = b""
            while b"[y/N]: " not in seen:
                seen += os.read(screen, 4096)
            while not _waits(process):  # Python misses a signal that comes while it prepares to read a line
                time.sleep(0.01)
            os.write(screen, typed.encode())
            assert process.wait(20) == code
        finally:
            process.kill()
    rest = os.read(screen, 4096).decode()
    os.close(screen)
    assert (said in rest, "Traceback" in rest) == (True, False)


def _waits(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process sleeps, as one does that waits for its terminal."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def _own_terminal() -> None:
    """Make the terminal the process's own, so that Ctrl-C reaches it."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
