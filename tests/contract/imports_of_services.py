"""`python -m tests.contract.imports_of_services`: imports every module of services and shared packages.

Prints, as JSON, what their own code does meanwhile: sockets, threads, processes, files and reads of the environment.
What packages of others do is not counted, and neither are the files of the imports themselves.
"""

import asyncio
import gc
import importlib
import inspect
import json
import os
import random
import ssl
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.contract.tree import ROOT, packages

_EVENTS = ("socket.", "subprocess.", "os.fork", "os.exec", "os.posix_spawn", "_thread.start", "open", "os.listdir")
_FOLDERS = [it.folder / "src" for it in packages() if it.folder.parent.name in ("services", "shared")]
_OWN = tuple(map(str, _FOLDERS))

found: list[str] = []


def note(what: str) -> None:
    """Remember what is done, if it is done by own code because its module is imported.

    Pydantic looks for plugins when the first model is made.
    """
    frame = inspect.currentframe()
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        if "/pydantic/plugin/" in frame.f_code.co_filename:
            return
        file = frame.f_code.co_filename
        if frame.f_code.co_name == "<module>" and file.startswith(_OWN):
            found.append(f"{Path(file).relative_to(ROOT)}:{frame.f_lineno}: {what}")
        frame = frame.f_back


def hook(event: str, arguments: Sequence[object]) -> None:
    """Be told of an event of the interpreter."""
    if event.startswith(_EVENTS):
        note(" ".join(map(str, (event, *arguments[:1]))))


class Environment(dict[str, str]):
    """The environment, which tells of every read."""

    def __getitem__(self, name: str) -> str:
        """Read a variable."""
        note(f"environment {name}")
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Read a variable, or the default."""
        note(f"environment {name}")
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        """Look whether a variable is there."""
        note(f"environment {name}")
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        """Read all."""
        note("environment")
        return super().__iter__()


def modules() -> Iterator[str]:
    """Every module of services and shared packages. Migrations are run, and not imported."""
    for source in _FOLDERS:
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            if "migrations" in parts:
                continue
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def made() -> list[str]:
    """What forks must not share: generators of random numbers (Python seeds its own again), TLS contexts, loops."""
    kinds = (random.Random, ssl.SSLContext, asyncio.AbstractEventLoop)
    own = getattr(random.random, "__self__")  # noqa: B009 - types do not know it
    kept = [each for each in gc.get_objects() if isinstance(each, kinds) and not isinstance(each, random.SystemRandom)]
    return [repr(each) for each in kept if each is not own]


def main() -> None:
    """Import all of them."""
    os.__dict__["environ"] = Environment(os.environ)
    sys.addaudithook(hook)
    imported = [importlib.import_module(name).__name__ for name in modules()]
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    print(json.dumps({"imported": imported, "found": found, "threads": threads, "made": made()}))


if __name__ == "__main__":
    main()
