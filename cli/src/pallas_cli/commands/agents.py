"""`pallas agents`: check team folders; list, show and retire agents of the running platform."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.completing import complete_agent, complete_team
from pallas_cli.confirming import Yes, confirm
from pallas_cli.paging import After, Limit, Page
from pallas_cli.plain_text import print_plain

app = typer.Typer(no_args_is_help=True, help="Agents and their team folders.")


@app.command()
def validate(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Team folders.")],
    run: Annotated[bool, typer.Option("--run", help="Also make agents of fast-agent, which runs their code.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check team folders, and print every fault.

    They are checked as if one worker hosts them. Exit code 1 if there is a fault.
    """
    from pallas_cli.agents.check import check

    result = check(folders)
    if run and result.teams:
        from pallas_cli.processes.fast_agent import run_faults

        result = replace(result, faults=tuple(run_faults(result.teams)))
    if as_json:
        print(json.dumps(result.as_json(), indent=2))
    else:
        print_plain("\n".join(result.as_lines()))
    raise typer.Exit(0 if result.valid else 1)


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A team folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what a worker makes of a team folder.

    That is agents, models, servers, the variables that the folder needs, and settings that are translated.
    """
    from pallas_cli.agents.explain import explain_folder

    found = explain_folder(folder)
    print_plain(json.dumps(found.as_json(), indent=2) if as_json else "\n".join(found.as_lines()))
    raise typer.Exit(0 if not found.faults else 1)


@app.command("list")
def list_agents(
    limit: Limit = None,
    after: After = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List the agents of the running platform, with their health."""
    from pallas_cli.agents.view import show_agents

    run_on(nats, data, partial(show_agents, page=Page(limit, after), as_json=as_json))


@app.command()
def show(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Agent, as NAME or TEAM/NAME.", autocompletion=complete_agent)
    ],
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show one agent: its tools, limits, dependencies and health."""
    from pallas_cli.agents.view import show_agent

    run_on(nats, data, partial(show_agent, name=agent, as_json=as_json))


@app.command()
def retire(
    team: Annotated[
        str,
        typer.Argument(
            metavar="TEAM", help="Name of the team, or data/NAME for one data agent.", autocompletion=complete_team
        ),
    ],
    yes: Yes = False,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Remove a team or a data agent from the catalogue. Turns that wait for it are cancelled.

    Stop the team's workers, or the data agent's program, first.
    """
    from pallas_cli.agents.view import retire_team

    confirm(
        f"{team} is removed from the catalogue, and the turns that wait for it are cancelled", yes=yes, as_json=as_json
    )
    run_on(nats, data, partial(retire_team, team=team, as_json=as_json))
