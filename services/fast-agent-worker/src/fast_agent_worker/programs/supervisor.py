"""Keeps the processes of a folder's programs, and hosts the folder anew when it has changed.

A program is code of the team: it may never return from its import, or end its process. Then it is told which one that
is, and all others work.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from asyncio.subprocess import Process as Subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from fast_agent_worker.parts import Part, ending, parts_of, source_of, split
from fast_agent_worker.programs.metrics import metrics_of
from fast_agent_worker.settings import FastAgentSettings
from pallas_hosting.folders import WATCH_INTERVAL
from pallas_runtime.process import BROKER, STORED, Process
from pallas_teams import FolderChanges, TeamFaults, TeamFolder, load_each

log = logging.getLogger(__name__)

_LAST_SECONDS = 600.0
"""Seconds after which a program that has not returned from its import is killed."""
_SILENT_SECONDS = 10.0
"""Seconds without a sign of life after which a process counts as one that does not go on. It may be killed then."""
_FIRST_PAUSE, _LONGEST_PAUSE, _STEADY_SECONDS = 0.2, 30.0, 60.0
"""Seconds before a process that has ended is started again: they double, unless it had worked for a while."""
_LOOKS = 0.25
_WARNING_SECONDS = 60.0
_KILL_SECONDS = 5.0
_REFUSED_SETTINGS = 2


@dataclass(slots=True, eq=False)
class _Program:
    """A process. `making` is the agent that is made now, `since` when that began, `heard` when it last said something.

    It is `settled` if its agents are made, or it was told why they are not.
    """

    number: int
    part: Part
    pid: int = 0
    making: str | None = None
    since: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    settled: bool = False
    made: bool = False
    stopping: bool = False
    lacks: bool = False
    port: int = 0
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it has started. Its end is not known yet, so the number is its own."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def is_silent(self, seconds: float = _SILENT_SECONDS) -> bool:
        """Whether it has not gone on for so long."""
        return self.made and time.monotonic() - self.heard > seconds


@dataclass
class Programs:
    """The programs of a folder. Made by `programs_of`."""

    settings: FastAgentSettings
    process: Process
    server: Subprocess
    _folder: TeamFolder | None = None
    _running: dict[int, _Program] = field(default_factory=dict[int, _Program])
    _failed: dict[str, str] = field(default_factory=dict[str, str])
    _read: set[str] = field(default_factory=set[str])
    _pauses: dict[tuple[str, ...], float] = field(default_factory=dict[tuple[str, ...], float])
    _restarts: set[asyncio.TimerHandle] = field(default_factory=set[asyncio.TimerHandle])
    _told: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))
    _changes: FolderChanges = field(init=False)

    http: None = None

    def __post_init__(self) -> None:
        self._changes = FolderChanges(self.settings.teams)
        probes = self.process.probes
        for name in ("process", BROKER, STORED):
            probes.checks[name] = partial(self._missing, name)
        probes.notes["turns"] = lambda: next((it.notes["turns"] for it in self._all() if "turns" in it.notes), None)
        probes.text = lambda: metrics_of([(self._label(it), it.port) for it in self._running.values() if it.port])

    async def host(self) -> None:
        """Start a process for each part of the folder, and wait until all are settled. Those of before are stopped.

        Raises:
            TeamFaults: the folder has faults; nothing has changed.
        """
        async with self._reading() as opened:
            teams, refused = await asyncio.to_thread(
                load_each, self.settings.teams, os.environ, beside=self.settings.beside
            )
            for faults in refused.values():
                raise faults
            await self.drain()
            self._folder = next(iter(teams.values()), None)
            self._failed, self._read = {}, set()
            parts = parts_of(self._folder, self.settings, os.environ) if self._folder is not None else [Part()]
            for part in parts:
                self._start(part)
            while not all(each.settled for each in self._all()) or self._restarts:
                self._news.clear()
                await self._news.wait()
            opened |= self._read
        if self._folder is not None and (self._failed or any(each.lacks for each in self._all())):
            self._changes.doubt(self._folder.folder, partial=True)

    async def follow_changes(self) -> None:
        """Host the folder anew whenever it has changed, for ever. With faults, it stays as it was."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            changed = await asyncio.to_thread(self._changes.unread)
            if self._told and self._folder is not None and not changed:
                self._told = False
                await asyncio.to_thread(self._changes.doubt, self._folder.folder, partial=True)
            for folder in changed:
                files = await asyncio.to_thread(self._changes.changed, folder)
                log.info("the folder has changed", extra={"folder": folder.name, "files": files})
                try:
                    await self.host()
                except TeamFaults as error:
                    self._changes.doubt(folder)
                    facts = {"folder": folder.name, "reason": error.message}
                    log.error("the changed folder is not accepted", extra=facts)

    async def drain(self) -> None:
        """Stop all processes. Each finishes the work in progress."""
        for each in self._restarts:
            each.cancel()
        self._restarts.clear()
        for each in self._all():
            self._stop(each)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_seconds + _KILL_SECONDS):
                await asyncio.gather(*(each.ended.wait() for each in self._running.values()))
        for each in self._running.values():
            each.send(signal.SIGKILL)

    async def close(self) -> None:
        """Let processes that were stopped give their turns back, and kill those that do not end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILL_SECONDS):
                await self.drain()
        for each in self._running.values():
            each.send(signal.SIGKILL)

    async def listen(self) -> None:
        """Take what the processes say, until nothing can be heard any more. What cannot be understood is left out.

        The pipe is open in the processes of programs, which may write anything.
        """
        assert self.server.stdout is not None
        warned = -_WARNING_SECONDS
        while True:
            try:
                if not (line := await self.server.stdout.readline()):
                    return
                self._take(json.loads(line))
            except (ValueError, RecursionError) as error:
                if time.monotonic() - warned > _WARNING_SECONDS:
                    warned = time.monotonic()
                    log.warning("a process says what cannot be understood", extra={"error": type(error).__name__})

    def _take(self, said: Any) -> None:
        match said:
            case {"number": int(number), **facts}:
                if (program := self._running.get(number)) is not None:
                    self._hear(program, facts)
                    program.heard = time.monotonic()
                    self._news.set()
            case _:
                raise ValueError("no process says this")

    async def watch(self) -> None:
        """Look for programs that do not return, or block their process, for ever."""
        most, looked = max(self.settings.import_seconds, _SILENT_SECONDS), time.monotonic()
        while True:
            await asyncio.sleep(_LOOKS)
            now = time.monotonic()
            paused, looked = now - looked - _LOOKS, now
            for each in self._all():
                if paused > 1:  # this process was paused with the others
                    each.heard, each.since = each.heard + paused, each.since + paused
                if each.making is not None:
                    self._look(each, each.making, now - each.since)
                elif each.is_silent(most):
                    log.error("a program blocks its process, which is killed", extra={"agents": each.part.agents})
                    each.send(signal.SIGKILL)

    async def follow_server(self) -> None:
        """Wait for the end of what makes the processes. They are killed then."""
        code = await self.server.wait()
        log.error("the process that makes those of programs has ended", extra={"ending": ending(code)})
        for each in self._running.values():
            each.ended.set()
        self._running.clear()

    def _look(self, program: _Program, agent: str, seconds: float) -> None:
        most = self.settings.import_seconds
        if seconds > most and agent not in self._failed:
            others = self._tell(program, agent, f"has not returned from its import for {most:g} s")
            program.settled = True
            if others:
                self._stop(program)
                self._start(Part(others))
                mine = tuple(each for each in program.part.agents if each not in others)
                self._start(Part(mine)).settled = True
            self._news.set()
        elif seconds > _LAST_SECONDS:
            self._stop(program)

    def _hear(self, program: _Program, said: Mapping[str, Any]) -> None:
        match said:
            case {"pid": int(pid)}:
                program.pid = pid
                if program.stopping:
                    program.send(signal.SIGKILL)
            case {"making": agent} if agent is None or agent in program.part.agents:
                program.making, program.since = agent, time.monotonic()
            case {"read": str(path)}:
                self._read.add(path)
            case {"made": _, "failed": bool(failed), "port": int(port)}:
                program.made = program.settled = True
                program.lacks, program.port = failed, port
                if self._failed.keys() & set(program.part.agents):
                    self._failed = {each: why for each, why in self._failed.items() if each not in program.part.agents}
                    self._report()
            case {"missing": {**missing}, "notes": {**notes}}:
                program.missing, program.notes = missing, notes
            case {"exit": int(code)}:
                del self._running[program.number]
                program.ended.set()
                if not program.stopping:
                    self._ended(program, code)
            case _:
                raise ValueError("a process says what nobody understands")

    def _ended(self, program: _Program, code: int) -> None:
        if program.making is not None:
            if others := self._tell(program, program.making, f"{ending(code)} while it was imported"):
                self._start(Part(others))
            return
        log.error("a process has ended", extra={"agents": program.part.agents, "ending": ending(code)})
        if code == _REFUSED_SETTINGS and not program.made and not self.process.probes.started:
            self.process.failed.set()  # later it is the folder that is refused: it may be mended
            return
        part = program.part
        steady = time.monotonic() - program.since > _STEADY_SECONDS
        pause = _FIRST_PAUSE if steady else self._pauses.get(part.agents, _FIRST_PAUSE)
        self._pauses[part.agents] = min(2 * pause, _LONGEST_PAUSE)

        def again() -> None:
            self._restarts.discard(handle)
            self._start(part)

        handle = asyncio.get_running_loop().call_later(pause, again)
        self._restarts.add(handle)

    def _tell(self, program: _Program, agent: str, what: str) -> tuple[str, ...]:
        """Tell in the log, and in its agents' health, that a source does not work. Returns the other agents."""
        assert self._folder is not None
        source, mine, others = split(self._folder, program.part, agent)
        reason = f"{source} {what}"
        log.error("a program is left out", extra={"team": self._folder.name, "agents": mine, "reason": reason})
        self._failed |= dict.fromkeys(mine, reason)
        self._told = True
        self._report()
        return others

    def _report(self) -> None:
        for each in self._all():
            if each.part.failed:
                self._stop(each)
        if self._failed:
            self._start(Part((), self._failed))

    def _start(self, part: Part) -> _Program:
        program = _Program(next(self._numbers), part)
        self._running[program.number] = program
        environ = {"PALLAS_INSTANCE": f"{self.process.instance}-{program.number}"}
        environ |= {"PALLAS_HOST": "127.0.0.1", "PALLAS_PORT": "0"}  # of its probes, which this process asks
        order = {"number": program.number, "agents": part.agents, "failed": part.failed, "environ": environ}
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(order).encode() + b"\n")
        return program

    def _stop(self, program: _Program) -> _Program:
        """Stop a process. One that is making an agent may not see a signal for ever."""
        program.stopping = True
        program.send(signal.SIGTERM if program.made else signal.SIGKILL)
        return program

    def _all(self) -> Sequence[_Program]:
        return [each for each in self._running.values() if not each.stopping]

    def _label(self, program: _Program) -> str:
        """The file of a process's program, or what it has instead."""
        if self._folder is None or not program.part.agents:
            return "none"
        agent = self._folder.agents[program.part.agents[0]]
        return source_of(self._folder, agent) if isinstance(agent.module, Path) else "modules and cards"

    def _missing(self, name: str) -> str | None:
        for each in self._all():
            if name == "process" and (each.is_silent() or not each.settled):
                return f"{self._label(each)} {'does not answer' if each.made else 'is being imported'}"
            if name in each.missing:
                return each.missing[name]
        if name != "process":
            return None
        return "a program starts again" if self._restarts else None if self._all() else "the programs are replaced"

    @asynccontextmanager
    async def _reading(self) -> AsyncGenerator[set[str]]:
        """`FolderChanges.reading`, in a thread: a folder may have many files."""
        reading = ExitStack()
        enter = [partial(reading.enter_context, self._changes.reading(folder)) for folder in self.settings.teams]
        opened = [await asyncio.to_thread(each) for each in enter]
        try:
            yield opened[0] if opened else set()
        finally:
            await asyncio.to_thread(reading.close)


@asynccontextmanager
async def programs_of(settings: FastAgentSettings, process: Process) -> AsyncGenerator[Programs]:
    """Host the folder of the settings inside the block.

    Raises:
        TeamFaults: the folder has faults.
    """
    # It is in this process group, so whoever kills that leaves nothing behind.
    command = (sys.executable, "-m", "fast_agent_worker.programs.fork_server", *sys.argv[1:])
    server = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=1024**2)
    programs = Programs(settings, process, server)
    try:
        async with (
            process.running(programs.listen(), "programs"),
            process.running(programs.watch(), "watch of programs"),
            process.running(programs.follow_server(), "fork server"),
        ):
            try:
                await programs.host()
                async with process.running(programs.follow_changes(), "changes"):
                    yield programs
            finally:
                await programs.close()
    finally:
        assert server.stdin is not None
        server.stdin.close()
        await server.wait()
