"""Builds of workspaces and the programs that run in them."""

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from pallas_demo.coder.agentapi import agent_api
from pallas_demo.coder.settings import StandInSettings
from pallas_demo.coder.terminal import Terminal, now
from pallas_demo.coder.views import NO_PARAMETER, Json, agent
from pallas_demo.coder.world import (
    APP,
    SPEC,
    USER_NAME,
    AppStatus,
    Build,
    Parameter,
    State,
    Template,
    Workspace,
    World,
)

_STATES: dict[str, State] = {"running": "working", "stable": "idle"}
_REPORTS = 200
"""Reports that a workspace keeps."""


async def sandbox(folder: Path) -> tuple[str, ...]:
    """The start of a command that may write in its own folder only, where bubblewrap works; else nothing."""
    program = shutil.which("bwrap")
    if program is None:
        return ()
    wall = (
        program, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev",
        "--proc", "/proc", "--bind", str(folder), str(folder), "--chdir", str(folder),
    )  # fmt: skip
    tried = await asyncio.create_subprocess_exec(*wall, "true", stderr=asyncio.subprocess.DEVNULL)
    return wall if await tried.wait() == 0 else ()


class Running:
    """A workspace that is on: its program, and AgentAPI in front."""

    def __init__(self, workspace: Workspace, terminal: Terminal) -> None:
        self.workspace = workspace
        self.terminal = terminal
        self.api: ASGIApp = agent_api(terminal)
        self.ready_at = ""

    @property
    def health(self) -> str:
        """The health of the app."""
        return "unhealthy" if self.terminal.exit_code is not None else "healthy" if self.ready_at else "initializing"


class Workspaces:
    """All workspaces of a world, their jobs and programs. `url` is known when the port is open."""

    def __init__(self, settings: StandInSettings, folder: Path, url: Callable[[], str]) -> None:
        self.settings = settings
        self.world = World.load(settings.state)
        self.running: dict[str, Running] = {}
        self.lag = 0.0
        self.changed = asyncio.Condition()
        self._folder, self._url = folder, url
        self._tasks: set[asyncio.Task[None]] = set()

    def folder(self, workspace: Workspace) -> Path:
        """The folder of a workspace."""
        return self._folder / workspace.id

    def parameters(self, template: Template) -> list[Parameter]:
        """The parameters of a template."""
        return [one for one in template.parameters if one.name != SPEC or self.settings.release < NO_PARAMETER]

    def start(self, workspace: Workspace, build: Build) -> None:
        """Add a build and begin its job."""
        workspace.builds.append(build)
        self.world.workspaces[workspace.id] = workspace
        self.touch()
        self._soon(self._carry_out(workspace, build))

    def resume(self) -> None:
        """Start what was on when the stand-in ended. A spec that was typed is not typed again."""
        for workspace in map(self.world.workspaces.__getitem__, self.world.interrupted):
            last = workspace.build
            self.start(workspace, Build(number=last.number + 1, transition="start", version=last.version))

    def touch(self) -> None:
        """Something changed: save it and wake those who wait."""
        self.world.save(self.settings.state)
        self._soon(self._wake())

    def report(self, workspace: Workspace, status: AppStatus) -> None:
        """Keep what a coding agent said of itself."""
        workspace.statuses = [*workspace.statuses, status][-_REPORTS:]
        self.touch()

    def agent(self, workspace: Workspace) -> Json | None:
        """The workspace agent in Coder's words, if it is on."""
        running = self.running.get(workspace.id)
        if workspace.state != "running" or (workspace.template.ai and running is None):
            return None
        ready_at = running.ready_at if running else workspace.build.completed_at
        name = f"{APP}--main--{workspace.name}--{USER_NAME}" if self.settings.wildcard else ""
        return agent(
            workspace,
            self.settings,
            ready_at=ready_at,
            health=running.health if running else "",
            subdomain=name,
            lag=self.lag,
        )

    async def close(self) -> None:
        """End all programs and jobs."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(running.terminal.close() for running in self.running.values()))

    async def _wake(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, workspace: Workspace, build: Build) -> None:
        """The job of a build: pending, running, succeeded or failed."""
        await asyncio.sleep(self.settings.build_seconds / 3)
        if build.status != "pending":
            return
        build.status, build.started_at = "running", now()
        self.touch()
        await asyncio.sleep(self.settings.build_seconds * 2 / 3)
        if build.status != "running":
            return
        if old := self.running.pop(workspace.id, None):
            await old.terminal.close()
        if workspace.template.fails and build.transition != "delete":
            build.status, build.error = "failed", "terraform apply: exit status 1"
        else:
            build.status = "succeeded"
        build.completed_at = now()
        if build.status == "succeeded" and build.transition == "start" and workspace.template.ai:
            await self._run(workspace)
        if workspace.deleted:
            shutil.rmtree(self.folder(workspace), ignore_errors=True)
        self.touch()

    async def _run(self, workspace: Workspace) -> None:
        """Start the program of a workspace, in a folder of its own."""
        folder = self.folder(workspace)
        folder.mkdir(parents=True, exist_ok=True)
        running = Running(workspace, Terminal(self.settings.terminal, lambda: self._moved(running)))
        environment = {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "TMPDIR": str(folder),
            "TERM": "xterm-256color", "LANG": "C.UTF-8", "CODER_AGENT_URL": self._url(),
            "CODER_AGENT_TOKEN": workspace.token, "CODER_WORKSPACE_NAME": workspace.name, **self.settings.environment,
        }  # fmt: skip
        wall = await sandbox(folder) if self.settings.sandbox else ()
        self.running[workspace.id] = running
        prompt = "" if workspace.prompted else workspace.spec
        workspace.prompted = True
        command = (*wall, *self.settings.program)
        await running.terminal.start(command, folder, environment, self.settings.limits, prompt)

    def _moved(self, running: Running) -> None:
        """The status of a program changed."""
        workspace, terminal = running.workspace, running.terminal
        if self.running.get(workspace.id) is not running:
            return
        if not running.ready_at and terminal.ready:
            running.ready_at = now()
        if running.ready_at and terminal.exit_code is None:
            last = workspace.status_now()
            state = _STATES[terminal.status]
            if last is None or (last.state != state and not (state == "idle" and last.state == "failure")):
                self.report(workspace, AppStatus(state=state, message=last.message if last else ""))
        self.touch()
