"""`python -m tests.upgrade.nursery MODULE...`: starts services of one release, as children that have imported them.

The imports of a service take longer than all else of its start. Each line on standard input is a service to start: its
module, its environment and its log. Its process id is in `LOG.pid`, and when it has ended, its exit code in `LOG.code`.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any


def main(modules: list[str]) -> None:
    """Import the modules, then start services until there is no more input."""
    for module in modules:
        print(importlib.import_module(f"{module}.app").__file__)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if (service := os.fork()) == 0:
                _be(wanted)
                return
            _watch(service, Path(wanted["log"]))


def _be(wanted: dict[str, Any]) -> None:
    """Become the service: nothing that follows is of the nursery."""
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor, place in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(place, descriptor)
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.argv = [wanted["module"]]
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)


def _watch(service: int, log: Path) -> None:
    _put(log.with_suffix(".pid"), service)
    _, status = os.waitpid(service, 0)
    _put(log.with_suffix(".code"), os.waitstatus_to_exitcode(status))
    os._exit(0)


def _put(path: Path, number: int) -> None:
    """Write a file that is whole as soon as it is there."""
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(str(number), "ascii")
    fresh.rename(path)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1:])
