"""The processes of a run: started, awaited, measured and stopped, each with its output in a file of the folder."""

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Self

import psutil
from tests.embedded import free_port

_STARTS_WITHIN = 60.0
_STOPS_WITHIN = 10.0
_RETRY = 0.05


class Measured:
    """A process that is looked at: what it has used, with those that it has started and that still run."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self._ps = psutil.Process(pid)

    def cpu_seconds(self) -> float:
        """CPU time it has used so far, user and system."""
        return sum(sum(each.cpu_times()[:2]) for each in self._all())

    def rss_bytes(self) -> int:
        """Memory it has now."""
        return sum(each.memory_info().rss for each in self._all())

    def _all(self) -> list[psutil.Process]:
        return [self._ps, *self._ps.children(recursive=True)]


class Process(Measured):
    """A child process that answers on `port`. Its limit of open files is ours."""

    def __init__(self, name: str, folder: Path, port: int, popen: subprocess.Popen[bytes]) -> None:
        super().__init__(name, popen.pid)
        self.port = port
        self._folder = folder
        self._popen = popen

    def wait_for(self, path: str, within: float = _STARTS_WITHIN) -> Self:
        """Wait until it answers 200 on `path`, or anything at all when `path` is empty.

        Raises:
            RuntimeError: it ended, or did not answer in time; with the end of its output.
        """
        deadline = time.monotonic() + within
        while self._popen.poll() is None and time.monotonic() < deadline:
            if answers(self.port, path):
                return self
            time.sleep(_RETRY)
        raise RuntimeError(f"{self.name} did not start:\n{self.output()[-2000:]}")

    def output(self) -> str:
        """What it has printed."""
        return (self._folder / f"{self.name}.log").read_text("utf-8", errors="replace")

    def stop(self) -> None:
        """End it, by force if it does not go by itself."""
        if self._popen.poll() is not None:
            return
        self._popen.terminate()
        try:
            self._popen.wait(_STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def answers(port: int, path: str) -> bool:
    """Whether something on that port answers: 200 on `path`, or any status when `path` is empty."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=2) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return not path
    except OSError:
        return False


@contextlib.contextmanager
def running(
    name: str,
    folder: Path,
    module: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    python: str | Path = sys.executable,
    port: int | None = None,
) -> Generator[Process]:
    """Run `python -m module arguments`; `{port}` in an argument or value of `env` becomes `port`, or a free one."""
    port = port or free_port()
    given = {key: value.format(port=port) for key, value in (env or {}).items()}
    with (folder / f"{name}.log").open("ab") as output:
        popen = subprocess.Popen(
            [python, "-m", module, *(argument.format(port=port) for argument in arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **given},
            start_new_session=True,
        )
    process = Process(name, folder, port, popen)
    try:
        yield process
    finally:
        process.stop()


def cpu_seconds(processes: Iterable[Measured]) -> dict[str, float]:
    """CPU time of each process so far; processes of one name are added up."""
    spent: dict[str, float] = {}
    for process in processes:
        spent[process.name] = spent.get(process.name, 0.0) + process.cpu_seconds()
    return spent
