"""`pallas turns`: what happens to turns, from the log."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_NATS, AsJson, NatsUrl, run_on

app = typer.Typer(no_args_is_help=True, help="Turns, as the log has them.")


@app.command()
def tail(
    team: Annotated[str | None, typer.Option(help="Only this team.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only agents of this name.")] = None,
    nats: NatsUrl = DEFAULT_NATS,
    as_json: AsJson = False,
) -> None:
    """Print what happens to turns, live, until Ctrl-C. With --json, a document a line."""
    from pallas_cli.turns_tail import tail as follow

    run_on(nats, partial(follow, team=team, agent=agent, as_json=as_json))
