"""Whatever a program does to its process, the other programs of its folder go on."""

import os
import re
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.integration.fast_agent_worker.stage import Stage, a_stage, python, until_hosted
from tests.integration.real_parts import until

PYTHON = python()
pytestmark = pytest.mark.timeout(200)

PROGRAM = """
import os, subprocess
from fast_agent import FastAgent
{before}
left = subprocess.Popen(["sleep", "600"])
fast = FastAgent("t")


@fast.tool
def look() -> str:
    return f"{{os.getpid()}} {{os.getppid()}} {{left.pid}}"


@fast.agent("{name}", "You help.", model="passthrough")
async def main(): ...
"""
WRITES = """
import gc
from fast_agent_worker.programs.status import Status
[pipe] = {it.pipe for it in gc.get_objects() if isinstance(it, Status)}
for line in (b"no json", b"[]", b'{"number": 1}', b'{"number": 1, "making": "nobody"}', b"x" * (2 << 20)):
    while line:
        line = line[os.write(pipe, line):]
    os.write(pipe, bytes([10]))
"""


@pytest.fixture(scope="module")
async def stage(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """A worker for two programs."""
    place = tmp_path_factory.mktemp("supervisor")
    for name, before in {"good": "", "odd": WRITES}.items():
        (place / "source" / name).mkdir(parents=True)
        text = PROGRAM.format(name=name, before=before)
        (place / "source" / name / "agent.py").write_text(text, "utf-8")
    async with a_stage(nats_url, place, "supervised", place / "source", import_seconds="5") as running:
        for name in ("good", "odd"):
            await until_hosted(running, name)
        yield running


async def processes(stage: Stage, agent: str) -> tuple[int, int, int]:
    """The processes of an agent: its own, the one that has made it, and one that it has started."""
    own, server, left = map(int, (await stage.call(agent, "***CALL_TOOL look {}")).text.split())
    return own, server, left


def listening(process: int) -> set[str]:
    """The addresses on which a process listens, in the words of Linux."""
    sockets = {os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return {line[1][:8] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets}


def known(process: int) -> tuple[str, int] | None:
    """The state of a process, and its parent; None if there is no such process."""
    try:
        state, parent, *_ = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    return state, int(parent)


async def test_what_a_program_writes_where_the_worker_listens_is_left_out(stage: Stage) -> None:
    assert "a process says what cannot be understood" in stage.worker.log.read_text("utf-8")
    assert await stage.worker.missing() == {}


async def test_probes_of_a_program_are_for_this_machine_only(stage: Stage) -> None:
    own, *_ = await processes(stage, "good")
    assert listening(own) == {"0100007F"}


async def test_what_a_program_leaves_behind_is_reaped(stage: Stage) -> None:
    own, server, left = await processes(stage, "odd")
    os.kill(own, signal.SIGKILL)

    async def adopted() -> bool:
        return (known(left) or ("", 0))[1] == server

    async def gone() -> bool:
        return known(left) is None

    await until(adopted)
    os.kill(left, signal.SIGKILL)
    await until(gone)


async def test_a_program_that_ends_while_its_folder_is_refused_waits_for_the_remedy(stage: Stage) -> None:
    own, *_ = await processes(stage, "odd")
    refused = stage.folder / "agents.yaml"
    refused.write_text("agents: [", "utf-8")
    await until_logged(stage, "the changed folder is not accepted")
    os.kill(own, signal.SIGKILL)
    await until_logged(stage, "ended the process with exit code 2")
    good = await processes(stage, "good")
    assert stage.worker.process.returncode is None
    refused.unlink()

    async def replaced() -> bool:
        return (await processes(stage, "good"))[0] != good[0]

    await until(replaced)
    assert (await processes(stage, "odd"))[0] != own


async def test_a_program_that_blocks_its_process_is_started_again_and_the_others_are_not(stage: Stage) -> None:
    own, *_ = await processes(stage, "odd")
    good = await processes(stage, "good")
    os.kill(own, signal.SIGSTOP)
    await until_logged(stage, "a program blocks its process, which is killed")
    assert (await processes(stage, "odd"))[0] != own
    assert await processes(stage, "good") == good


async def test_a_worker_ends_with_the_process_that_makes_the_others(stage: Stage) -> None:
    own, server, _ = await processes(stage, "good")
    os.kill(server, signal.SIGKILL)
    assert await stage.worker.process.wait() == 1

    async def ended() -> bool:
        return (known(own) or "Z")[0] == "Z"  # whether it is reaped is the system's business

    await until(ended)


async def until_logged(stage: Stage, text: str) -> None:
    """Wait until the worker has written a text."""

    async def written() -> bool:
        return re.search(re.escape(text), stage.worker.log.read_text("utf-8")) is not None

    await until(written, 60)
