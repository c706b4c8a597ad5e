"""The status line of commands that take long: only on a terminal, and not before its time."""

import os
import pty
import subprocess
import sys

import pytest

SCRIPT = """
import sys, threading
from pallas_cli import waiting
waiting.PATIENCE = float(sys.argv[1])
begun = threading.Event()
begin = waiting._Line.begin
waiting._Line.begin = lambda line: (begin(line), begun.set())
with waiting.shown(sys.argv[2] or None):
    begun.wait(float(sys.argv[3]))
print("done")
"""


def on_a_terminal(patience: str, what: str, lasts: str) -> str:
    """What a command that lasts this long writes to a terminal."""
    screen, terminal = pty.openpty()
    env = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, patience, what, lasts], stdout=terminal, stderr=terminal, env=env
    ) as process:
        os.close(terminal)
        seen = b""
        try:
            while piece := os.read(screen, 4096):
                seen += piece
        except OSError:
            pass  # the other end is closed
        assert process.wait(20) == 0
    os.close(screen)
    return seen.decode()


@pytest.mark.parametrize(
    ("patience", "what", "lasts", "shown"),
    [("0", "asking", "20", True), ("60", "asking", "0", False), ("0", "", "0", False)],
)
def test_a_status_line_appears_when_the_time_has_come(patience: str, what: str, lasts: str, shown: bool) -> None:
    seen = on_a_terminal(patience, what, lasts)
    assert ("asking" in seen) == shown
    assert seen.rstrip().endswith("done")


def test_a_pipe_gets_no_status_line() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, "0", "asking", "0.01"], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"done\n", b"")
