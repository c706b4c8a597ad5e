"""`pallas agents`: check team folders; list, show and retire agents of the running platform."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from pallas_bus import kv
from pallas_bus.ask import ask
from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_cli.agents import check, explain_folder
from pallas_cli.broker import OnBroker, on_broker
from pallas_cli.completing import complete_agent, complete_team
from pallas_cli.options import WHOLE, After, Limit, Page, Yes, confirm
from pallas_cli.plain_text import print_answer, print_plain, print_table
from pallas_cli.refused import NotReachable, Refused, not_there
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import AGENTS, ASK_POOL, DATA_TEAM, HEALTH, TURN_QUEUE, TURN_REQUESTED, WORKERS
from pallas_contracts.data_agents import PoolRequest
from pallas_contracts.errors import Unavailable
from pallas_contracts.health import AgentHealth
from pallas_contracts.turns import Principal, TurnRequested
from pallas_turns.cancel import withdraw_turn
from pallas_turns.claims import TurnRef, request_cancel
from pallas_turns.queue import delete_consumers

app = typer.Typer()


@app.command()
def validate(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Team folders.")],
    run: Annotated[bool, typer.Option("--run", help="Also make agents of fast-agent, which runs their code.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check team folders, and print every fault.

    They are checked as if one worker hosts them. Exit code 1 if there is a fault.
    """
    result = check(folders)
    if run and result.teams:
        from pallas_cli.processes.fast_agent import run_faults

        result = replace(result, faults=tuple(run_faults(result.teams)))
    print_answer(result.as_json(), "\n".join(result.as_lines()), as_json=as_json)
    raise typer.Exit(0 if result.valid else 1)


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A team folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what a worker makes of a team folder.

    That is agents, models, servers, the variables that the folder needs, and settings that are translated.
    """
    found = explain_folder(folder)
    print_plain(json.dumps(found.as_json(), indent=2) if as_json else "\n".join(found.as_lines()))
    raise typer.Exit(0 if not found.faults else 1)


@app.command("list")
@on_broker
def list_agents(on: OnBroker, limit: Limit = None, after: After = None) -> None:
    """List the agents of the running platform, with their health."""
    on.run(show_agents, page=Page(limit, after))


@app.command()
@on_broker
def show(
    on: OnBroker,
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Agent, as NAME or TEAM/NAME.", autocompletion=complete_agent)
    ],
) -> None:
    """Show one agent: its tools, limits, dependencies and health."""
    on.run(show_agent, name=agent)


@app.command()
@on_broker
def retire(
    on: OnBroker,
    team: Annotated[
        str,
        typer.Argument(
            metavar="TEAM", help="Name of the team, or data/NAME for one data agent.", autocompletion=complete_team
        ),
    ],
    yes: Yes = False,
) -> None:
    """Remove a team or a data agent from the catalogue. Turns that wait for it are cancelled.

    Stop the team's workers, or the data agent's program, first.
    """
    confirm(
        f"{team} is removed from the catalogue, and the turns that wait for it are cancelled",
        yes=yes,
        as_json=on.as_json,
    )
    on.run(retire_team, team=team)


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent with its health and the number of workers that host it."""

    definition: AgentDefinition
    health: AgentHealth | None
    workers: int

    @property
    def name(self) -> str:
        """The agent as TEAM/NAME."""
        return f"{self.definition.team}/{self.definition.agent}"

    def as_json(self) -> dict[str, Any]:
        """The row as plain values."""
        definition = self.definition
        with_model = definition.model or definition.capabilities
        return {
            "team": definition.team,
            "agent": definition.agent,
            "title": definition.title,
            "version": definition.version,
            "kind": definition.kind,
            "model": with_model.model if with_model else None,
            "status": self.health.status if self.health else None,
            "message": self.health.message if self.health else None,
            "workers": self.workers,
        }

    def as_cells(self) -> list[str]:
        """The row as cells of a table."""
        facts = self.as_json()
        status = facts["status"] or "unknown"
        if facts["message"]:
            status = f"{status}: {facts['message']}"
        cells = [self.name, facts["version"], facts["kind"], facts["model"] or "-"]
        return [*cells, str(self.workers), status]


async def agent_rows(bus: Bus) -> list[AgentRow]:
    """All agents, by team and name."""
    definitions = await kv.snapshot(bus, AGENTS)
    healths = await kv.snapshot(bus, HEALTH)
    presences = (await kv.snapshot(bus, WORKERS)).values()
    hosted = [key for presence in presences for key in presence.agents]
    return [AgentRow(definitions[key], healths.get(key), hosted.count(key)) for key in sorted(definitions)]


async def show_agents(bus: Bus, *, page: Page = WHOLE, as_json: bool) -> None:
    """Print the list of agents."""
    rows = page.cut(await agent_rows(bus), lambda row: row.name)
    if as_json:
        print(json.dumps([row.as_json() for row in rows], indent=2))
        return
    if not rows:
        print_plain("There are no agents yet.")
        return
    print_table(("agent", "version", "kind", "model", "workers", "health"), (row.as_cells() for row in rows))


async def show_agent(bus: Bus, name: str, *, as_json: bool) -> None:
    """Print one agent's definition and health.

    Raises:
        Refused: no agent or several agents have this name.
    """
    row = _only(await agent_rows(bus), name)
    definition = row.definition.model_dump(mode="json", exclude_none=True)
    if as_json:
        print(
            json.dumps({**definition, "health": row.health.model_dump(mode="json") if row.health else None}, indent=2)
        )
        return
    print_plain(
        f"{row.definition.team}/{row.definition.agent}: {row.definition.title}, version {row.definition.version}"
    )
    for field in ("description", "namespace", "capabilities", "limits", "retry", "agents", "dependencies"):
        if definition.get(field):
            print_plain(f"  {field}: {_text(definition[field])}")
    for tool in row.definition.tools:
        print_plain(f"  tool {tool.name}({', '.join(tool.input_schema.get('properties', {}))})")
    print_plain(f"  workers: {row.workers}")
    print_plain(f"  health: {row.as_cells()[-1]}")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _only(rows: list[AgentRow], name: str) -> AgentRow:
    team, _, agent = name.rpartition("/")
    found = [row for row in rows if row.definition.agent == agent and team in ("", row.definition.team)]
    match found:
        case [row]:
            return row
        case []:
            known = {row.definition.agent for row in rows} if not team else {row.name for row in rows}
            raise not_there("agent", name, known, otherwise="; `pallas agents list` shows all agents")
        case _:
            names = ", ".join(f"{row.definition.team}/{agent}" for row in found)
            raise Refused(f"several teams have an agent {agent!r}: {names}")


async def retire_team(bus: Bus, team: str, *, as_json: bool) -> None:
    """Remove all agents of a team from the catalogue, and cancel the turns that wait for them.

    Raises:
        Refused: `team` names an agent, the team is unknown, or a worker still hosts it and would publish it again.
    """
    whole, slash, agent = team.partition("/")
    if whole == DATA_TEAM:
        if not slash:
            raise Refused("data agents are retired one by one: `pallas agents retire data/NAME`")
        await _retire_data_agent(bus, agent, as_json=as_json)
        return
    if slash:
        raise Refused(f"{team!r} is an agent, and only a whole team can be retired: `pallas agents retire {whole}`")
    everything = await agent_rows(bus)
    rows = [row for row in everything if row.definition.team == team]
    if not rows:
        raise not_there("team", team, {row.definition.team for row in everything})
    if any(row.workers for row in rows):
        raise Refused(f"a worker still hosts team {team!r}; first stop the worker, or remove the team's folder from it")
    cancelled = 0
    for row in rows:
        await kv.delete(bus, AGENTS, team=team, agent=row.definition.agent)
        cancelled += await _cancel_waiting(bus, team, row.definition.agent)
        await delete_consumers(bus, [(team, row.definition.agent)])
    _report(team, [row.definition.agent for row in rows], cancelled, as_json=as_json)


async def _retire_data_agent(bus: Bus, agent: str, *, as_json: bool) -> None:
    """Have the pool forget a data agent, whoever owns it. A program that still runs registers it again."""
    known = {row.definition.agent for row in await agent_rows(bus) if row.definition.team == DATA_TEAM}
    if agent not in known:
        raise not_there("data agent", agent, known)
    request = PoolRequest(
        principal=Principal(id="cli"), operator=True, method="server.unregister", params={"agent_id": agent}
    )
    try:
        await ask(bus, ASK_POOL, request)
    except Unavailable as error:
        raise NotReachable(f"no data-pool answers: {error.message}") from error
    _report(DATA_TEAM, [agent], await _cancel_waiting(bus, DATA_TEAM, agent), as_json=as_json)


def _report(team: str, retired: list[str], cancelled: int, *, as_json: bool) -> None:
    print_answer(
        {"team": team, "retired": retired, "cancelled_turns": cancelled},
        f"Retired {', '.join(retired)} of {team}; {cancelled} waiting turns were cancelled.",
        as_json=as_json,
    )


async def _cancel_waiting(bus: Bus, team: str, agent: str) -> int:
    """Cancel the turns that wait for a retired agent; returns their number."""
    count = 0
    async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter(team=team, agent=agent)):
        request = TurnRequested.model_validate_json(record.data)
        await request_cancel(bus, TurnRef.of(request), "its agent was retired", request)
        await withdraw_turn(bus, request, record.seq)
        count += 1
    return count
