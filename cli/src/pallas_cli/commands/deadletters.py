"""`pallas deadletters`: list, show, retry and delete turns that could not be handled."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.completing import complete_team
from pallas_cli.deadletters import delete_letter, retry_every_letter, retry_one_letter, show_letter, show_letters
from pallas_cli.keep_key import keep_key_if_any
from pallas_cli.moments import is_moment
from pallas_cli.options import After, Limit, Page, Yes, confirm
from pallas_cli.refused import WrongUsage

app = typer.Typer()

Team = Annotated[str | None, typer.Option(help="Only this team.", autocompletion=complete_team)]
Agent = Annotated[str | None, typer.Option(help="Only agents of this name.")]
Since = Annotated[
    str,
    typer.Option(
        help="Start of the period: a time span before now (30m, 2h, 7d) or an ISO 8601 time.", callback=is_moment
    ),
]
Letter = Annotated[str, typer.Argument(metavar="LETTER", help="Name of the dead letter, as `list` shows it.")]


@app.command("list")
def list_letters(
    team: Team = None,
    agent: Agent = None,
    since: Since = "7d",
    limit: Limit = None,
    after: After = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List dead letters: turn, reason, time, original kept or not."""
    run_on(
        nats, data, partial(show_letters, team=team, agent=agent, since=since, page=Page(limit, after), as_json=as_json)
    )


@app.command()
def show(
    letter: Letter,
    content: Annotated[
        bool, typer.Option("--content", help="Print the original message too, with the caller's content.")
    ] = False,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter."""
    run_on(nats, data, partial(show_letter, name=letter, content=content, as_json=as_json))


@app.command()
def retry(
    letter: Annotated[
        str | None, typer.Argument(metavar="LETTER", help="Name of the dead letter, as `list` shows it.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Retry all dead letters that match the options below.")] = False,
    team: Team = None,
    agent: Agent = None,
    since: Since = "7d",
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Submit the original as a new turn; remove the dead letter. Exit code 1 if a retry failed."""
    if every == (letter is not None):
        raise WrongUsage("name one LETTER, or pass --all")
    options = {"as_json": as_json, "key": keep_key_if_any(data)}
    if letter is not None:
        run_on(nats, data, partial(retry_one_letter, name=letter, **options))
    else:
        run_on(nats, data, partial(retry_every_letter, team=team, agent=agent, since=since, **options))


@app.command()
def delete(
    letter: Letter, yes: Yes = False, nats: NatsUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Delete a dead letter and its original message permanently."""
    confirm(f"dead letter {letter} and its original message are deleted", yes=yes, as_json=as_json)
    run_on(nats, data, partial(delete_letter, name=letter, as_json=as_json))
