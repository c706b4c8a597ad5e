"""Loads a team folder as a worker does, and reports which agents cannot be made or called.

`pallas agents validate --run` starts it in a process of its own, because it runs the team's code. Run as
`python -m fast_agent_worker.check DIR [OTHER...]`, it prints one JSON document. It connects to nothing.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fast_agent_worker.hosting import host_team
from fast_agent_worker.parts import Part, ending, parts_of, source_of, split
from fast_agent_worker.programs.environment import activate
from fast_agent_worker.programs.fork_server import preload
from fast_agent_worker.settings import FastAgentSettings
from pallas_contracts.errors import PallasError
from pallas_teams import TeamFolder, load_team

_LOOKS, _LAST_SECONDS = 0.2, 1.0
_FORK = get_context("fork")
"""Nothing has threads yet, and fast-agent is imported already."""


@dataclass
class _Running:
    """The process that checks a part. `making` is the agent that is made now, `since` when that began."""

    part: Part
    process: BaseProcess
    making: str | None = None
    since: float = field(default_factory=time.monotonic)


@dataclass
class _Check:
    """What is found in a folder. Its programs have processes of their own, as in a worker."""

    folder: TeamFolder
    settings: FastAgentSettings
    output: int
    hosted: dict[str, Any] = field(default_factory=dict[str, Any])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    _running: dict[Connection, _Running] = field(default_factory=dict[Connection, _Running])

    def run(self) -> None:
        """Check all parts."""
        for part in parts_of(self.folder, self.settings, os.environ):
            self._start(part)
        while self._running:
            ready = wait(list(self._running), _LOOKS)
            for pipe, running in tuple(self._running.items()):
                if pipe in ready:
                    self._hear(pipe, running)
                elif not running.process.is_alive():  # a fork of it may keep the pipe open
                    self._end(pipe, running)
            for pipe, running in tuple(self._running.items()):
                if running.making is not None and time.monotonic() - running.since > self.settings.import_seconds:
                    running.process.kill()
                    what = f"has not returned from its import for {self.settings.import_seconds:g} s"
                    self._lose(pipe, running.making, what)

    def _start(self, part: Part) -> None:
        mine, theirs = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_check, args=(self.folder, part, theirs, self.output))
        process.start()
        theirs.close()
        self._running[mine] = _Running(part, process)

    def _hear(self, pipe: Connection, running: _Running) -> None:
        try:
            said = pipe.recv()
        except (EOFError, OSError):
            self._end(pipe, running)
            return
        if not isinstance(said, dict):
            running.making, running.since = said, time.monotonic()
            return
        self.hosted |= said["hosted"]
        self.failed |= said["failed"]
        del self._running[pipe]
        running.process.join(_LAST_SECONDS)
        running.process.kill()  # its threads may go on for ever

    def _end(self, pipe: Connection, running: _Running) -> None:
        """A process has ended without its result."""
        running.process.join()
        how = ending(running.process.exitcode or 0)
        if running.making is not None:
            self._lose(pipe, running.making, f"{how} while it was imported")
            return
        del self._running[pipe]
        self.failed |= {
            each: f"{source_of(self.folder, self.folder.agents[each])} {how}" for each in running.part.agents
        }

    def _lose(self, pipe: Connection, agent: str, what: str) -> None:
        source, mine, others = split(self.folder, self._running.pop(pipe).part, agent)
        self.failed |= dict.fromkeys(mine, f"{source} {what}")
        if others:
            self._start(Part(others))


def _check(folder: TeamFolder, part: Part, pipe: Connection, output: int) -> None:
    os.close(output)  # whoever reads it waits until all have closed it
    activate(folder.folder, os.environ)
    try:
        found = asyncio.run(_made(folder, part, pipe))
    except PallasError as error:
        found = {"hosted": {}, "failed": dict.fromkeys(part.agents, error.message)}
    pipe.send(found)


async def _made(folder: TeamFolder, part: Part, pipe: Connection) -> Mapping[str, Any]:
    @contextmanager
    def making(agent: str) -> Generator[None]:
        pipe.send(agent)
        yield
        pipe.send(None)

    settings = FastAgentSettings.from_env({})
    team = await host_team(folder, settings, connect=False, part=part, making=making)
    hosted = {
        each.definition.agent: {
            "description": each.definition.description,
            "servers": [server.name for server in each.definition.dependencies],
        }
        for each in team.agents
    }
    await team.shared.close()
    return {"hosted": hosted, "failed": {**team.shared.lacks(), **team.failed}}


def main() -> None:
    """Check the folder that is the first argument; the others are those of other teams."""
    output = os.dup(1)
    os.dup2(2, 1)  # what the team's code prints is no part of the document
    folder, *beside = (Path(each).absolute() for each in sys.argv[1:])
    found: dict[str, Any]
    preload()
    try:
        seconds = os.environ.get("PALLAS_IMPORT_SECONDS", "")
        settings = FastAgentSettings.from_env({"PALLAS_IMPORT_SECONDS": seconds})
        check = _Check(load_team(folder, os.environ, beside=beside), settings, output)
        check.run()
        found = {"hosted": check.hosted, "failed": check.failed}
    except PallasError as error:
        found = {"hosted": {}, "failed": {folder.name: error.message}}
    with os.fdopen(output, "w", encoding="utf-8") as out:
        json.dump(found, out)


if __name__ == "__main__":
    main()
