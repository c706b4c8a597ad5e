"""`pallas deadletters`: list, show, retry and delete turns that could not be handled."""

from typing import Annotated

import typer

from pallas_cli.broker import OnBroker, on_broker
from pallas_cli.completing import complete_team
from pallas_cli.deadletters import delete_letter, retry_every_letter, retry_one_letter, show_letter, show_letters
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
@on_broker
def list_letters(
    on: OnBroker, team: Team = None, agent: Agent = None, since: Since = "7d", limit: Limit = None, after: After = None
) -> None:
    """List dead letters: turn, reason, time, original kept or not."""
    on.run(show_letters, team=team, agent=agent, since=since, page=Page(limit, after))


@app.command()
@on_broker
def show(
    on: OnBroker,
    letter: Letter,
    content: Annotated[
        bool, typer.Option("--content", help="Print the original message too, with the caller's content.")
    ] = False,
) -> None:
    """Show one dead letter."""
    on.run(show_letter, name=letter, content=content)


@app.command()
@on_broker
def retry(
    on: OnBroker,
    letter: Annotated[
        str | None, typer.Argument(metavar="LETTER", help="Name of the dead letter, as `list` shows it.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Retry all dead letters that match the options below.")] = False,
    team: Team = None,
    agent: Agent = None,
    since: Since = "7d",
) -> None:
    """Submit the original as a new turn; remove the dead letter. Exit code 1 if a retry failed."""
    if every == (letter is not None):
        raise WrongUsage("name one LETTER, or pass --all")
    if letter is not None:
        on.run(retry_one_letter, name=letter)
    else:
        on.run(retry_every_letter, team=team, agent=agent, since=since)


@app.command()
@on_broker
def delete(on: OnBroker, letter: Letter, yes: Yes = False) -> None:
    """Delete a dead letter and its original message permanently."""
    confirm(f"dead letter {letter} and its original message are deleted", yes=yes, as_json=on.as_json)
    on.run(delete_letter, name=letter)
