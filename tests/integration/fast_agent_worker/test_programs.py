"""Programs of one folder: each has a process of its own, as where fast-agent runs it."""

import json
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.integration.fast_agent_worker.stage import Stage, a_stage, python, until_hosted
from tests.integration.real_parts import until

from pallas_bus import kv
from pallas_cli.processes.fast_agent import run_faults
from pallas_contracts.catalog import WORKERS
from pallas_teams import load_team

PYTHON = python()

PROGRAM = """
from fast_agent import FastAgent
{before}
fast = FastAgent("t")


@fast.tool
def look() -> str:
    {tool}


@fast.agent("{name}", "You help.", model="passthrough")
async def main(): ...
"""
HELPER = "WHO = '{name}'\n"
LOOKS = {
    "cal": ("from helper import WHO", "from helper_at_run_time import LATE; return f'{WHO} {LATE}'"),
    "mail": ("from helper import WHO", "from helper_at_run_time import LATE; return f'{WHO} {LATE}'"),
    "moves": (
        "import os, pathlib; pathlib.Path('below').mkdir(); os.chdir('below'); os.environ['MOVED'] = '1'; os.umask(0)",
        "return os.path.basename(os.getcwd())",
    ),
    "stays": (
        "import os",
        "return f\"{os.path.basename(os.getcwd())} {os.environ.get('MOVED')} {os.umask(0o22)}\"",
    ),
    "noisy": (
        "import atexit, locale, logging, random, signal, sys, threading, warnings\n"
        "logging.basicConfig(level=0, force=True); logging.disable(50); warnings.simplefilter('error')\n"
        "sys.stdout = open('/dev/null', 'w'); sys.stderr = None; atexit.register(lambda: 1 / 0); random.seed(1)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); threading.Thread(target=threading.Event().wait).start()\n"
        "sys.path.insert(0, '/nowhere'); sys.exitfunc = None",
        "return 'heard'",
    ),
    "shares": (
        "import dataclasses, multiprocessing, pickle\n"
        "@dataclasses.dataclass\n"
        "class Point: x: int = 1\n"
        "def double(point): return Point(2 * point.x)",
        "\n    with multiprocessing.get_context('spawn').Pool(1) as pool: [found] = pool.map(double, [Point(4)])\n"
        "    return f'{found} {pickle.loads(pickle.dumps(found)) == found}'",
    ),
    "python": (
        "import subprocess",
        "return subprocess.getoutput('python -c \"import mcp; print(1)\"')",
    ),
    "sleeps": ("import time; time.sleep(10**9)", "return ''"),
    "loops": ("\nwhile True: pass\n", "return ''"),
    "leaves": ("import os; os._exit(3)", "return ''"),
    "ends": ("import sys; sys.exit('no')", "return ''"),
    "asks": ("input()", "return ''"),
}
SAID = {
    "cal": "cal late cal",
    "mail": "mail late mail",
    "moves": "below",
    "stays": "programs None 18",
    "noisy": "heard",
    "shares": "Point(x=8) True",
    "python": "1",
    "latin": "Grüße",
}
FAILED = {
    "sleeps": "sleeps/agent.py has not returned from its import for 3 s",
    "loops": "loops/agent.py has not returned from its import for 3 s",
    "leaves": "leaves/agent.py ended the process with exit code 3 while it was imported",
    "ends": "its module could not be imported: it ends its process when it is imported (ends/agent.py:3)",
    "asks": "its module could not be imported: it reads from a terminal, and there is none (asks/agent.py:3)",
}


def write_folder(folder: Path) -> Path:
    """All programs, each in a folder of its own."""
    for name, (before, tool) in LOOKS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "agent.py").write_text(PROGRAM.format(name=name, before=before, tool=tool), "utf-8")
        (folder / name / "helper.py").write_text(HELPER.format(name=name), "utf-8")
        (folder / name / "helper_at_run_time.py").write_text(f"LATE = 'late {name}'\n", "utf-8")
    latin = PROGRAM.format(name="latin", before="", tool="return 'Grüße'")
    (folder / "cal" / "latin.py").write_bytes(f"# coding: latin-1\n{latin}".encode("latin-1"))
    (folder / "cal" / "lies.py").write_bytes(f"# coding: utf-8\n{latin}".encode("latin-1"))
    return folder


@pytest.fixture(scope="module")
async def stage(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """A worker for the folder."""
    place = tmp_path_factory.mktemp("programs")
    folder = write_folder(place / "source")
    async with a_stage(nats_url, place, "programs", folder, import_seconds="3") as running:
        for name in SAID:
            await until_hosted(running, name)
        yield running


@pytest.mark.parametrize("name", SAID)
async def test_a_program_does_what_it_does_alone(stage: Stage, name: str) -> None:
    answer = await stage.call(name, "***CALL_TOOL look {}")
    assert answer.text.strip() == SAID[name]


@pytest.mark.parametrize("name", FAILED)
async def test_a_program_that_cannot_be_imported_is_told_by_its_name(stage: Stage, bus: Connecting, name: str) -> None:
    connection = await bus("health-monitor")

    async def told() -> bool:
        workers = (await kv.snapshot(connection, WORKERS)).values()
        return FAILED[name] in [it.failed.get(f"programs.{name}") for it in workers]

    await until(told)
    assert (await stage.call(name, "hello")).error["code"] == "agent_failed"
    assert await stage.worker.missing() == {}
    log = [json.loads(line) for line in stage.worker.log.read_text("utf-8").splitlines() if line.startswith("{")]
    assert any(FAILED[name] in str(line) for line in log) or "traceback" in str(log)


async def test_metrics_are_those_of_all_programs(stage: Stage) -> None:
    before = await stage.counted("pallas_turns_total", program="cal/agent.py")
    await stage.call("cal", "hello")
    assert await stage.counted("pallas_turns_total", program="cal/agent.py") == before + 1
    assert await stage.counted("pallas_ready", program="mail/agent.py") == 1


async def test_a_program_that_is_mended_is_hosted(stage: Stage) -> None:
    (stage.folder / "below").rmdir()
    path = stage.folder / "sleeps" / "agent.py"
    path.write_text(path.read_text("utf-8").replace("time.sleep(10**9)", "0"), "utf-8")

    async def hosted() -> bool:
        return (await stage.call("sleeps", "hello")).text == "hello"

    await until(hosted, 60)
    assert (await stage.call("cal", "hello")).text == "hello"


def test_a_check_tells_the_programs_that_do_not_return_or_end_their_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = {
        "forks": "import os, time; os.fork() or time.sleep(30); os._exit(3)",
        "late": "import os, fast_agent_worker.hosting as it; it._Host.start = lambda _: os._exit(5)",
    }
    for name in ("cal", "sleeps", "leaves", "noisy", *odd):
        before, tool = LOOKS.get(name) or (odd[name], "return ''")
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(PROGRAM.format(name=name, before=before, tool=tool), "utf-8")
        (tmp_path / name / "helper.py").write_text(HELPER.format(name=name), "utf-8")
    monkeypatch.setenv("PALLAS_IMPORT_SECONDS", "10")
    found = {fault.path: fault.message for fault in run_faults([load_team(tmp_path, {})])}
    assert found == {
        "agents.forks": "forks/agent.py ended the process with exit code 3 while it was imported",
        "agents.late": "late/agent.py ended the process with exit code 5",
        "agents.leaves": FAILED["leaves"],
        "agents.sleeps": "sleeps/agent.py has not returned from its import for 10 s",
    }


METRICS = """
import asyncio
from fast_agent_worker.programs.metrics import metrics_of

TEXT = '# TYPE turns_total counter\\nturns_total{agent="a"} 2.0\\n# TYPE pallas_ready gauge\\npallas_ready 1.0\\n'


async def serve(text):
    async def answer(reader, writer):
        await reader.readuntil(b"\\r\\n\\r\\n")
        writer.write(text.encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


async def main():
    servers = [await serve("HTTP/1.0 200 OK\\r\\n\\r\\n" + TEXT) for _ in range(3)] + [await serve("no HTTP\\n")]
    ports = [it.sockets[0].getsockname()[1] for it in servers]
    print((await metrics_of(list(zip(("one", "one", "two", "odd"), ports)))).decode())


asyncio.run(main())
"""


def test_metrics_of_processes_of_one_program_are_added_up() -> None:
    done = subprocess.run([PYTHON, "-c", METRICS], capture_output=True, check=True, text=True)
    assert [line for line in done.stdout.splitlines() if line and not line.startswith("#")] == [
        'turns_total{agent="a",program="one"} 4.0',
        'turns_total{agent="a",program="two"} 2.0',
        'pallas_ready{program="one"} 1.0',
        'pallas_ready{program="two"} 1.0',
    ]
