"""The load process as its parent uses it: commands out, one answer each."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.asked import Asked
from tests.bench.calls import Call

_STOPS_WITHIN = 10.0


class Load:
    """Speaks to the load process over its standard input and output."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    def run(self, call: Call, concurrency: int, seconds: float) -> dict[str, Any]:
        """Keep `concurrency` calls under way for some seconds. Returns seconds, latencies, wrong and faults."""
        return self._do({"do": "run", "call": call.to_json(), "concurrency": concurrency, "seconds": seconds})

    def floor(self, kind: str, url: str, concurrency: int, seconds: float) -> dict[str, Any]:
        """The same with one of the floors of the broker at `url`."""
        return self._do({"do": "floor", "kind": kind, "url": url, "concurrency": concurrency, "seconds": seconds})

    def ask(self, asked: Asked, concurrency: int, seconds: float = 0.0) -> dict[str, Any]:
        """The same with questions over the broker; without `seconds` each of them is asked once."""
        return self._do({"do": "ask", "asked": asked.to_json(), "concurrency": concurrency, "seconds": seconds})

    def hold(self, call: Call, count: int, *, legacy: bool = False) -> dict[str, Any]:
        """Open so many further calls that do not end. Returns how many are held and how many ended after all."""
        return self._do({"do": "hold", "call": call.to_json(), "count": count, "legacy": legacy})

    def release(self) -> dict[str, Any]:
        """Close what is held. Returns how many there were and how many had ended before."""
        return self._do({"do": "release"})

    def _do(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(json.dumps(command).encode() + b"\n")
        self._popen.stdin.flush()
        if not (line := self._popen.stdout.readline()):
            raise RuntimeError("the load process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def load_process(folder: Path) -> Generator[Load]:
    """Run the load process. What it complains about goes to `load.log` in the folder."""
    with (folder / "load.log").open("ab") as errors:
        popen = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield Load(popen)
    finally:
        assert popen.stdin is not None
        popen.stdin.close()
        try:
            popen.wait(_STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
