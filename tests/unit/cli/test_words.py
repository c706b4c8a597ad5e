"""Times that users type, what they type to run this, and the line that says that a command still works."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pallas_cli.moments import moment_ahead, moment_of, since_words
from pallas_cli.refused import Refused
from pallas_cli.typed import typed


@pytest.mark.parametrize(("read", "sign"), [(moment_of, -1), (moment_ahead, 1)])
def test_a_time_span_counts_from_now_and_a_time_is_absolute(read: Callable[[str], datetime], sign: int) -> None:
    before = datetime.now(UTC)
    assert timedelta() <= read("2h") - before - sign * timedelta(hours=2) < timedelta(minutes=1)
    assert read("2027-01-02T03:04+01:00") == datetime(2027, 1, 2, 2, 4, tzinfo=UTC)
    assert read("2027-01-02") == datetime(2027, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "2 h", "999999999999d", ""])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="neither a time span"):
        moment_ahead(text)


def test_a_period_is_named_in_words() -> None:
    assert [since_words(text) for text in ("7d", "1h", "1.5m")] == [
        "in the last 7 days",
        "in the last hour",
        "in the last 1.5 minutes",
    ]
    assert since_words("2027-01-02") == "since 2027-01-02"


def test_an_installed_command_is_typed_by_its_name() -> None:
    assert typed({"PATH": "/usr/bin"}) == "pallas"


def test_uv_is_named_by_its_path_if_the_shell_would_not_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / ".tools" / "uv"
    uv.parent.mkdir()
    uv.touch(0o755)
    monkeypatch.chdir(tmp_path)
    assert typed({"UV": str(uv), "PATH": "/nowhere"}) == ".tools/uv run pallas"
    assert typed({"UV": str(uv), "PATH": str(uv.parent)}) == "uv run pallas"
    assert typed({"UV": "/elsewhere/uv", "PATH": "/nowhere"}) == "/elsewhere/uv run pallas"


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
