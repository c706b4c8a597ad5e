"""The environment of fast-agent-worker, which has packages of its own: fast-agent pins most of its dependencies.

It is made when a folder needs it for the first time, and again when the lock has changed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pallas_cli.refused import Refused

PYTHON = "PALLAS_FAST_AGENT_PYTHON"
"""The variable that names the Python of an environment with fast-agent-worker, where there is no checkout."""

_ROOT = Path(__file__).resolve().parents[4]
_PROJECT = _ROOT / "services" / "fast-agent-worker"
_PLACE = _ROOT / ".tools" / "fast-agent-worker"
_SECONDS = 900.0


def fast_agent_python(environ: Mapping[str, str], report: Callable[[str], None]) -> Path:
    """The Python that runs fast-agent-worker. `report` is told when packages have to be installed.

    Raises:
        Refused: the packages cannot be installed.
    """
    if given := environ.get(PYTHON):
        return Path(given)
    if not (_PROJECT / "uv.lock").is_file():
        raise Refused(f"teams of fast-agent need a checkout of Pallas, or {PYTHON}")
    python, mark = _PLACE / "bin" / "python", _PLACE / ".installed"
    wanted = hashlib.sha256((_PROJECT / "uv.lock").read_bytes()).hexdigest()
    if not python.exists() or not mark.is_file() or mark.read_text("utf-8") != wanted:
        report("installing fast-agent, about 250 MB; this is done once")
        _sync(environ)
        mark.write_text(wanted, "utf-8")
    return python


def _sync(environ: Mapping[str, str]) -> None:
    uv = shutil.which("uv") or str(_ROOT / ".tools" / "uv" / "bin" / "uv")
    command = (uv, "sync", "--quiet", "--frozen", "--project", str(_PROJECT), "--python", sys.executable)
    env = {**os.environ, **environ, "UV_PROJECT_ENVIRONMENT": str(_PLACE)}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"fast-agent cannot be installed: {type(error).__name__}") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["uv failed"]
        raise Refused(f"fast-agent cannot be installed: {last[0]}")
