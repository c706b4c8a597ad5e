"""`pallas up`: plan, start, send a first turn, serve, drain, stop.

No process of the stack outlives it: the supervisor is stopped on every path, and on Linux the kernel kills the children
if this process is killed.
"""

import asyncio
import os
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from rich.console import Console

from pallas_cli.broker import access_to
from pallas_cli.kept_addresses import keep_addresses
from pallas_cli.processes.supervisor import StartTimeout, Supervisor
from pallas_cli.refused import Refused
from pallas_cli.stack import ready_file, report
from pallas_cli.stack.console_link import console_link
from pallas_cli.stack.data import locked
from pallas_cli.stack.demo_library import Operator, ensure_demo_library
from pallas_cli.stack.demo_servers import DemoServers
from pallas_cli.stack.demo_team import DemoTeam, with_demo_team, without_library
from pallas_cli.stack.first_turn import send_first_turn
from pallas_cli.stack.fleet_story import tell_fleet_story
from pallas_cli.stack.listing import until_agents_answer, until_healthy
from pallas_cli.stack.options import External, StackOptions
from pallas_cli.stack.plan import AuthSide, Plan
from pallas_cli.stack.planning import make_plan
from pallas_cli.stack.ports import Ports
from pallas_cli.stack.services import all_specs
from pallas_cli.team_folders import TeamSummary, demo_folder, is_demo, read_teams

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
    addresses = DemoServers.at(Ports(options.port_base)).environ() if demo else {}
    teams = read_teams(folders, os.environ | addresses)
    with locked(options.data) as data:
        teams, demo_team = with_demo_team(data, teams) if options.auth else (without_library(data, teams), None)
        plan = make_plan(options, External.from_env(os.environ), data, teams, demo=demo, report=console.print)
        keep_addresses(data, plan.addresses)
        if options.ready_file is not None:
            ready_file.remove(options.ready_file)
        return asyncio.run(_Stack(options, plan, teams, demo, demo_team, console).run())


class _Stack:
    """One run of a stack."""

    def __init__(
        self,
        options: StackOptions,
        plan: Plan,
        teams: Sequence[TeamSummary],
        demo: bool,
        demo_team: DemoTeam | None,
        console: Console,
    ) -> None:
        self._options = options
        self._plan = plan
        self._teams = teams
        self._demo = demo
        self._demo_team = demo_team
        self._has_library = False
        self._console = console
        self._logs = plan.data / "log"
        self._ready = False
        self._supervisor = Supervisor(all_specs(plan), self._logs, self._report, self._write_ready_file)

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
                self._withdraw_ready_file()
                await self._supervisor.stop(self._plan.drain_seconds + _KILL_AFTER_DRAIN, hurry)
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
            self._report(
                f"stopping: running turns have up to {self._plan.drain_seconds:g} s; press Ctrl-C again to stop at once"
            )
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return 0

    async def _serve(self) -> int:
        since = monotonic()
        self._report(f"starting; data and logs are in {self._plan.data}")
        with self._console.status("starting"):
            await self._start(since)
            self._has_library = await self._give_library()
        self._ready = True
        self._write_ready_file()
        self._report(f"ready after {monotonic() - since:.1f} s")
        answered = await self._first_turn() and await self._fleet_story()
        report.show_stack(self._console, self._plan, self._teams, self._logs)
        if self._options.stay:
            report.show_next_steps(self._console, self._plan, self._teams)
            if self._plan.auth is not None:
                auth = self._plan.auth
                report.show_console(self._console, auth.workspaces_url, await console_link(auth), self._plan.data)
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
        await until_agents_answer(self._plan, self._teams, self._options.start_timeout)
        if self._plan.auth is not None:
            self._report(f"agents answer after {monotonic() - since:.1f} s")

    async def _give_library(self) -> bool:
        """Give the demo team its library. Without it the team works, and its health is degraded."""
        if self._plan.auth is None or self._demo_team is None:
            return False
        try:
            await ensure_demo_library(self._demo_team, _operator(self._plan, self._plan.auth))
            await until_healthy(
                access_to(self._plan.nats_url, self._plan.data), self._demo_team.summary, _HEALTH_TIMEOUT
            )
        except Refused as refusal:
            self._report(f"the demo team has no library: {refusal}")
            return False
        return True

    async def _first_turn(self) -> bool:
        """Send a first turn. By default only the demo team gets one."""
        wanted = self._demo if self._options.turn is None else self._options.turn
        agent = next(((team.name, agent) for team in self._teams for agent in team.agents), None)
        if not wanted or agent is None:
            return True
        gateway = self._plan.gateway_urls[0]
        return await send_first_turn(self._console, gateway, agent, demo=self._demo, library=self._has_library)

    async def _fleet_story(self) -> bool:
        """Show a coding agent at work, at the end of `--demo` and with the stand-in only: elsewhere it costs money."""
        fleet = self._plan.fleet
        if self._options.stay or not self._demo or fleet.coder_port is None or fleet.local is not None:
            return True
        return await tell_fleet_story(self._console, self._plan)

    def _report(self, line: str) -> None:
        self._console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)

    def _write_ready_file(self) -> None:
        path = self._options.ready_file
        if path is None or not self._ready:
            return
        ready_file.write(path, _addresses(self._plan, self._logs), self._supervisor.pids())

    def _withdraw_ready_file(self) -> None:
        if self._options.ready_file is not None and self._ready:
            ready_file.remove(self._options.ready_file)


def _operator(plan: Plan, auth: AuthSide) -> Operator:
    return Operator(
        auth.team_lifecycle_url,
        auth.library_search_url,
        auth.workspaces_url,
        plan.registry_url,
        auth.accounts.admin_password,
    )


def _addresses(plan: Plan, logs: Path) -> ready_file.Addresses:
    return ready_file.Addresses(
        registry=plan.registry_url,
        gateway=plan.gateway_urls[0],
        gateways=plan.gateway_urls,
        nats=plan.nats_url.rstrip("/"),
        nats_seed_file=str(plan.cli_seed) if plan.cli_seed else None,
        redis=plan.redis_url.rstrip("/") if plan.redis_url else None,
        postgres=plan.postgres_url,
        team_lifecycle=plan.auth.team_lifecycle_url if plan.auth else None,
        library_search=plan.auth.library_search_url if plan.auth else None,
        pipelines=plan.pipelines_url,
        data_pool=plan.data_pool_url,
        coder=plan.fleet.coder_url,
        fleet=plan.fleet.url,
        workspaces=plan.auth.workspaces_url if plan.auth else None,
        data=str(plan.data),
        log=str(logs),
    )


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
