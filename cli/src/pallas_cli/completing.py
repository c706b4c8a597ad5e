"""What the shell offers for names of agents, teams, turns and others, read from the running platform.

A shell waits for it, so it takes a second at most, and offers nothing where the platform cannot be asked.
"""

import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pallas_cli.broker import DEFAULT_DATA, access_to, data_or_that_of_the_context
from pallas_cli.contexts import Contexts, choose
from pallas_cli.kept_addresses import find_address
from pallas_cli.parts import Part

if TYPE_CHECKING:
    from pallas_bus.connection import Bus

SECONDS = 1.0
_TURNS = 30

type Completer = Callable[[typer.Context, str], list[str]]


def _quietly(find: Callable[[typer.Context, Path], Iterable[str]]) -> Completer:
    """The names that begin with what was typed; none if they cannot be found."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        # A traceback in the middle of a command line helps nobody.
        with suppress(Exception):
            choose(ctx.find_root().params.get("chosen"))
            data = data_or_that_of_the_context(ctx, ctx.params.get("data") or DEFAULT_DATA)
            return sorted({name for name in find(ctx, data) if name.startswith(incomplete)})
        return []

    return complete


def _address(ctx: typer.Context, data: Path, part: Part, option: str) -> str:
    variable = os.environ.get(f"PALLAS_{part.upper()}_URL")
    return find_address(ctx.params.get(option) or variable, data, part)


def _from_broker[R](ctx: typer.Context, data: Path, read: "Callable[[Bus], Awaitable[R]]") -> R:
    """What `read` finds at the broker. `read` must not import: on a busy machine, that takes longer than the answer.

    Raises:
        Exception: the broker cannot be asked in time.
    """
    import asyncio

    from pallas_cli.broker import platform

    async def find() -> R:
        async with asyncio.timeout(SECONDS), platform(access_to(_address(ctx, data, "nats", "nats"), data)) as bus:
            return await read(bus)

    return asyncio.run(find())


def _agents(ctx: typer.Context, data: Path) -> list[str]:
    """All agents as TEAM/NAME. A gateway on the command line may be of another platform than the broker."""
    source = ctx.get_parameter_source("url")
    if source is not None and source.name == "COMMANDLINE":
        return []

    from pallas_bus import kv
    from pallas_contracts.catalog import AGENTS

    async def read(bus: "Bus") -> list[str]:
        return [f"{each.team}/{each.agent}" for each in (await kv.snapshot(bus, AGENTS)).values()]

    return _from_broker(ctx, data, read)


def _tools(ctx: typer.Context, data: Path) -> list[str]:
    """The tools of the agent that was typed."""
    from pallas_bus import kv
    from pallas_contracts.catalog import AGENTS

    team, _, name = str(ctx.params.get("agent")).rpartition("/")

    async def read(bus: "Bus") -> list[str]:
        agents = (await kv.snapshot(bus, AGENTS)).values()
        return [tool.name for it in agents if it.agent == name and team in ("", it.team) for tool in it.tools]

    return _from_broker(ctx, data, read)


def _teams(ctx: typer.Context, data: Path) -> list[str]:
    return [agent.partition("/")[0] for agent in _agents(ctx, data)]


def _turns(ctx: typer.Context, data: Path) -> list[str]:
    """The latest turns of the last hour."""

    from datetime import UTC, datetime, timedelta

    from pallas_turns.history.turn_list import TurnFilter, find_turns

    async def read(bus: "Bus") -> list[str]:
        wanted = TurnFilter(since=datetime.now(UTC) - timedelta(hours=1))
        return [turn.turn_id for turn in await find_turns(bus, wanted, limit=_TURNS)]

    return _from_broker(ctx, data, read)


def _registered_teams(ctx: typer.Context, data: Path) -> list[str]:
    from pallas_cli.kept_secrets import find_admin_password
    from pallas_cli.rest.client import api_at

    with api_at(_address(ctx, data, "team_lifecycle", "url"), find_admin_password(data)) as api:
        api.http.timeout = SECONDS
        return [row["id"] for row in api.rows("teams")]


complete_agent = _quietly(_agents)
complete_tool = _quietly(_tools)
complete_team = _quietly(_teams)
complete_turn = _quietly(_turns)
complete_registered_team = _quietly(_registered_teams)
complete_context = _quietly(lambda _ctx, _data: Contexts.read().named)
