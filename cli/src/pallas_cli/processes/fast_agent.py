"""The environment of fast-agent-worker, which has packages of its own: fast-agent pins most of its dependencies.

It is made when a folder needs it for the first time, and again when the lock has changed. The check of a folder makes
its agents there, in a process of its own and within bounds.
"""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_cli.processes.environment import team_environment
from pallas_cli.refused import Refused

if TYPE_CHECKING:
    from pallas_teams import Fault, TeamFolder

PYTHON = "PALLAS_FAST_AGENT_PYTHON"
"""The variable that names the Python of an environment with fast-agent-worker, where there is no checkout."""

_ROOT = Path(__file__).resolve().parents[4]
_PROJECT = _ROOT / "services" / "fast-agent-worker"
_PLACE = _ROOT / ".tools" / "fast-agent-worker"
_SYNC_SECONDS = 900.0

CHECK_SECONDS = 120.0
"""How long the check of a folder may take. It says itself which program does not return."""

_LATE = f"its team was not checked within {CHECK_SECONDS:g} s"


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
        code, output = asyncio.run(_finished(command, env, _SYNC_SECONDS))
    except (OSError, TimeoutError) as error:
        raise Refused(f"fast-agent cannot be installed: {type(error).__name__}") from error
    if code:
        last = output.decode("utf-8", "replace").strip().splitlines()[-1:] or ["uv failed"]
        raise Refused(f"fast-agent cannot be installed: {last[0]}")


def run_faults(teams: "Sequence[TeamFolder]") -> "Iterator[Fault]":
    """A fault for each fast-agent agent that cannot be made.

    Raises:
        Refused: fast-agent cannot be installed.
    """
    from pallas_teams import Fault

    for team in teams:
        if any(agent.kind == "fast-agent" for agent in team.agents.values()):
            for agent, reason in _failed_agents(team.folder, [it.folder for it in teams]).items():
                known = team.agents.get(agent)
                source = (known.card or known.module) if known else None
                file = source if isinstance(source, Path) else team.folder
                yield Fault(str(file), 0, 0, f"agents.{agent}", reason)


def _failed_agents(folder: Path, beside: Sequence[Path]) -> Mapping[str, str]:
    python = fast_agent_python(os.environ, lambda line: print(line, file=sys.stderr))
    command = (str(python), "-m", "fast_agent_worker.check", str(folder), *map(str, beside))
    try:
        code, output = asyncio.run(_finished(command, team_environment(), CHECK_SECONDS))
    except TimeoutError:
        return {"…": _LATE}
    if code:
        return {"…": f"the folder cannot be loaded; the process ended with {code}"}
    failed: dict[str, str] = json.loads(output)["failed"]
    return failed


async def _finished(command: Sequence[str], env: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
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
