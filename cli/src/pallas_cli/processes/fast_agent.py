"""The environment of fast-agent-worker, which has packages of its own: fast-agent pins most of its dependencies.

It is made when a folder needs it for the first time, and again when the lock has changed.
"""

import asyncio
import hashlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
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
        code, output = asyncio.run(finished(command, env, _SECONDS))
    except (OSError, TimeoutError) as error:
        raise Refused(f"fast-agent cannot be installed: {type(error).__name__}") from error
    if code:
        last = output.decode("utf-8", "replace").strip().splitlines()[-1:] or ["uv failed"]
        raise Refused(f"fast-agent cannot be installed: {last[0]}")


async def finished(command: Sequence[str], env: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
    """Run a program that reads nothing, and return its exit code and its output.

    Raises:
        OSError: it cannot be started.
        TimeoutError: it does not end in time; it is killed.
    """
    process = await asyncio.create_subprocess_exec(
        *command, env=dict(env), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, start_new_session=True
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    assert process.returncode is not None
    return process.returncode, output
