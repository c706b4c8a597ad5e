"""`pallas chat` on a terminal: a status line that is updated while the turn runs and cleared before the answer."""

import os
import pty
import re
import subprocess

from tests.e2e.lab import Lab
from tests.e2e.stack import PALLAS
from tests.requirements import requirement

SPINNER = set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
_PIECE = re.compile(r"\x1b\[(?P<n>\d*)(?P<verb>[A-Za-z])|\x1b\[\?\d+[hl]|(?P<control>[\r\n])|(?P<text>[^\x1b\r\n]+)")


def chat(lab: Lab, message: str) -> str:
    """Send one message from a terminal, and return the bytes that came to it as text."""
    screen, terminal = pty.openpty()
    command = [PALLAS, "chat", "lab/maker", "--url", lab.stack.ready()["gateway"], "--message", message]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=env) as process:
        os.close(terminal)
        output = read_all(screen)
        assert process.wait(60) == 0, output
    return output


def read_all(screen: int) -> str:
    """Read until the other side is closed, which Linux reports as an error."""
    found = b""
    try:
        while piece := os.read(screen, 65536):
            found += piece
    except OSError:
        pass
    finally:
        os.close(screen)
    return found.decode("utf-8")


def visible_lines(output: str) -> list[str]:
    """The lines on the screen at the end. Interprets only the control codes that a status line needs."""
    lines, row = [""], 0
    for piece in _PIECE.finditer(output):
        if (text := piece["text"]) is not None:
            lines[row] += text
        elif piece["control"] == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece["verb"] == "A":
            row = max(0, row - int(piece["n"] or 1))
        elif piece["verb"] == "K":
            lines[row] = ""
    return [line.strip() for line in lines if line.strip()]


@requirement("P-5.17", "P-5.18", "P-5.19", "P-5.20")
def test_progress_is_one_line_that_is_updated_and_cleared(lab: Lab) -> None:
    output = chat(lab, '/tool long_task {"seconds": 2, "steps": 4}\n/say all done')
    assert re.search(r"toolbox/long_task: step \d of 4", output)
    assert SPINNER & set(output)
    seen = " ".join(visible_lines(output))
    assert "done after 4 steps" in seen
    assert "all done" in seen
    assert "toolbox/" not in seen
    assert not SPINNER & set(seen)
