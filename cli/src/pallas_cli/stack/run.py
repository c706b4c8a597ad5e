"""`pallas up`: plan, start, send a first turn, serve, drain, stop.

No process of the stack outlives it: the supervisor is stopped on every path, and on Linux the kernel kills the children
if this process is killed.
"""

import asyncio
import json
import os
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console

from pallas_cli.broker import access_to
from pallas_cli.kept_addresses import keep_addresses
from pallas_cli.private_files import write_atomically
from pallas_cli.processes.forks import ForkServer
from pallas_cli.processes.supervisor import StartTimeout, Supervisor
from pallas_cli.refused import Refused
from pallas_cli.stack import report
from pallas_cli.stack.data import locked
from pallas_cli.stack.demo_library import Operator, console_link, ensure_demo_library
from pallas_cli.stack.demo_team import DemoTeam, with_demo_team, without_library
from pallas_cli.stack.demo_turns import send_first_turn, show_coding_agent
from pallas_cli.stack.listing import until_agents_answer, until_healthy
from pallas_cli.stack.plan import External, Plan, StackOptions, make_plan
from pallas_cli.stack.ports import Ports, demo_addresses, require_free
from pallas_cli.stack.table import all_specs, fixed_ports, imported
from pallas_cli.team_folders import demo_folder, is_demo, read_teams

_KILL_AFTER_DRAIN = 1.0
_SAME_PRESS = 1.0
_HEALTH_TIMEOUT = 20.0


def run_stack(options: StackOptions, console: Console) -> int:
    """Run a stack until a signal; return the exit code.

    Raises:
        Refused: the options cannot work, or a process refuses its settings. Nothing is left running.
    """
    folders = options.teams or (demo_folder(),)
    demo = any(is_demo(folder) for folder in folders)
    teams = read_teams(folders, os.environ | (demo_addresses(Ports(options.port_base)) if demo else {}))
    with locked(options.data) as data:
        teams, demo_team = with_demo_team(data, teams) if options.auth else (without_library(data, teams), None)
        plan = make_plan(options, External.from_env(os.environ), data, teams, demo=demo, report=console.print)
        require_free(fixed_ports(plan))
        keep_addresses(data, plan.addresses)
        if options.ready_file is not None:
            options.ready_file.unlink(missing_ok=True)
        return asyncio.run(_Stack(plan, demo_team, console).run())


class _Stack:
    """One run of a stack."""

    def __init__(self, plan: Plan, demo_team: DemoTeam | None, console: Console) -> None:
        self._options = plan.options
        self._plan = plan
        self._demo_team = demo_team
        self._console = console
        self._logs = plan.data / "log"
        self._ready = False
        forks = ForkServer(imported(plan), self._logs / "fork-server.log", self._report)
        self._supervisor = Supervisor(all_specs(plan), self._logs, self._report, self._write_ready_file, forks)

    async def run(self) -> int:
        """Start, serve, stop. The exit code is 0, or 1 if the start timed out or the first turn of `--demo` failed."""
        stop, hurry = asyncio.Event(), asyncio.Event()
        with _on_signals(stop, hurry):
            try:
                return await self._serve_until(stop)
            except StartTimeout as error:
                self._report(str(error))
                return 1
            finally:
                if self._options.ready_file is not None and self._ready:
                    self._options.ready_file.unlink(missing_ok=True)
                await self._supervisor.stop(self._options.drain_seconds + _KILL_AFTER_DRAIN, hurry)
                if self._ready:
                    self._report("stopped")

    async def _serve_until(self, stop: asyncio.Event) -> int:
        """Start the stack and serve; a signal ends it in any phase."""
        serving = asyncio.create_task(self._serve())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            return serving.result()
        if self._ready:
            drain = f"running turns have up to {self._options.drain_seconds:g} s"
            self._report(f"stopping: {drain}; press Ctrl-C again to stop at once")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return 0

    async def _serve(self) -> int:
        since = monotonic()
        self._report(f"starting; data and logs are in {self._plan.data}")
        with self._console.status("starting"):
            await self._start(since)
            library = await self._give_library()
        self._ready = True
        self._write_ready_file()
        self._report(f"ready after {monotonic() - since:.1f} s")
        answered = await self._first_turn(library=library) and await self._coding_agent()
        report.show_stack(self._console, self._plan, self._logs)
        if self._options.stay:
            report.show_next_steps(self._console, self._plan)
            if (operator := self._operator) is not None:
                report.show_console(self._console, operator.console_url, await console_link(operator), self._plan.data)
            report.show_end(self._console)
            await asyncio.Event().wait()
        return 0 if answered else 1

    async def _start(self, since: float) -> None:
        """Wait until everything answers. Agents answer before the auth services have started.

        Raises:
            Refused: a process refuses its settings.
            StartTimeout: something does not answer in time.
        """
        timeout = self._options.start_timeout
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._supervisor.start(timeout))
                group.create_task(self._report_when_agents_answer(since))
        except* (Refused, StartTimeout) as failures:
            raise failures.exceptions[0] from None

    async def _report_when_agents_answer(self, since: float) -> None:
        await until_agents_answer(self._plan, self._options.start_timeout)
        if self._plan.accounts is not None:
            self._report(f"agents answer after {monotonic() - since:.1f} s")

    @property
    def _operator(self) -> Operator | None:
        """Who operates this stack; None without the auth services."""
        if self._plan.accounts is None:
            return None
        url, password = self._plan.url, self._plan.accounts.admin_password
        return Operator(url("team-lifecycle"), url("library-search"), url("workspaces"), url("registry"), password)

    async def _give_library(self) -> bool:
        """Give the demo team its library. Without it the team works, and its health is degraded."""
        operator, demo = self._operator, self._demo_team
        if operator is None or demo is None:
            return False
        try:
            await ensure_demo_library(demo, operator)
            await until_healthy(access_to(self._plan.nats_url, self._plan.data), demo.summary, _HEALTH_TIMEOUT)
        except Refused as refusal:
            self._report(f"the demo team has no library: {refusal}")
            return False
        return True

    async def _first_turn(self, *, library: bool) -> bool:
        """Send a first turn. By default only the demo team gets one."""
        demo = self._plan.demo
        wanted = demo if self._options.turn is None else self._options.turn
        agent = next(((team.name, agent) for team in self._plan.teams for agent in team.agents), None)
        if not wanted or agent is None:
            return True
        return await send_first_turn(self._console, self._plan.gateway_urls[0], agent, demo=demo, library=library)

    async def _coding_agent(self) -> bool:
        """Show a coding agent at work, at the end of `--demo` and with the stand-in only: elsewhere it costs money."""
        plan = self._plan
        if self._options.stay or not plan.demo or plan.external.coder is not None or plan.local is not None:
            return True
        return await show_coding_agent(self._console, plan)

    def _report(self, line: str) -> None:
        self._console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)

    def _write_ready_file(self) -> None:
        if self._options.ready_file is not None and self._ready:
            write_ready_file(self._options.ready_file, self._plan, self._logs, self._supervisor.pids())


def write_ready_file(path: Path, plan: Plan, logs: Path, pids: Mapping[str, Sequence[int]]) -> None:
    """Write or replace the ready file: addresses and process ids of a stack, for programs that control it.

    It is written when the stack is ready, and replaced atomically after a restart of a process. It has the servers'
    credentials, so only its owner can read it. Addresses have no trailing slashes; None if a server is not used.
    """
    content: dict[str, Any] = {
        **plan.addresses,
        "gateways": plan.gateway_urls,
        "nats": plan.nats_url.rstrip("/"),
        "nats_seed_file": str(plan.cli_seed) if plan.cli_seed else None,
        "redis": plan.redis_url.rstrip("/") if plan.redis_url else None,
        "postgres": plan.postgres_url,
        "coder": plan.coder_url,
        "fleet": plan.url("fleet"),
        "data": str(plan.data),
        "log": str(logs),
        "pids": pids,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=2) + "\n")


@contextmanager
def _on_signals(stop: asyncio.Event, hurry: asyncio.Event) -> Generator[None]:
    """The first signal sets `stop`, a later one sets `hurry`.

    `uv run` forwards a Ctrl-C that the terminal has already sent to all processes, so a second signal within 1 s is the
    same key press.
    """
    loop = asyncio.get_running_loop()
    first = float("inf")

    def received() -> None:
        nonlocal first
        first = min(first, monotonic())
        stop.set()
        if monotonic() - first > _SAME_PRESS:
            hurry.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, received)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
