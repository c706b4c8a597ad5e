"""`pallas deadletters`: turns that could not be handled, and what to do with them."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, DEFAULT_NATS, AsJson, Data, NatsUrl, run_on

app = typer.Typer(no_args_is_help=True, help="Turns that could not be handled.")

Team = Annotated[str | None, typer.Option(help="Only this team.")]
Agent = Annotated[str | None, typer.Option(help="Only agents of this name.")]
Since = Annotated[str, typer.Option(help="From when on: a span back from now (30m, 2h, 7d) or an ISO 8601 time.")]
Letter = Annotated[str, typer.Argument(metavar="LETTER", help="The letter's name, as `list` shows it.")]


@app.command("list")
def list_letters(
    team: Team = None,
    agent: Agent = None,
    since: Since = "7d",
    nats: NatsUrl = DEFAULT_NATS,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List dead letters: which turn, why, when, and whether the original message is still there."""
    from pallas_cli.deadletters.view import show_letters

    run_on(nats, data, partial(show_letters, team=team, agent=agent, since=since, as_json=as_json))


@app.command()
def show(
    letter: Letter,
    content: Annotated[bool, typer.Option("--content", help="Also what the caller said: the original.")] = False,
    nats: NatsUrl = DEFAULT_NATS,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter."""
    from pallas_cli.deadletters.view import show_letter

    run_on(nats, data, partial(show_letter, name=letter, content=content, as_json=as_json))


@app.command()
def retry(
    letter: Annotated[str | None, typer.Argument(metavar="[LETTER]", help="The letter's name.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All letters that the options below leave.")] = False,
    team: Team = None,
    agent: Agent = None,
    since: Since = "7d",
    nats: NatsUrl = DEFAULT_NATS,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Submit the original as a new turn and remove the letter. Exit code 1 when one was refused."""
    from pallas_cli.deadletters.retry import retry_every_letter, retry_one_letter
    from pallas_cli.refused import Refused

    if every == (letter is not None):
        raise Refused("name one LETTER, or say --all")
    if letter is not None:
        run_on(nats, data, partial(retry_one_letter, name=letter, as_json=as_json))
    else:
        run_on(nats, data, partial(retry_every_letter, team=team, agent=agent, since=since, as_json=as_json))


@app.command()
def drop(letter: Letter, nats: NatsUrl = DEFAULT_NATS, data: Data = DEFAULT_DATA, as_json: AsJson = False) -> None:
    """Remove a dead letter and its original, for good."""
    from pallas_cli.deadletters.view import drop as drop_one

    run_on(nats, data, partial(drop_one, name=letter, as_json=as_json))
