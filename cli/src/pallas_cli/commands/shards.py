"""`pallas shards`: in which shard of the log each team is."""

from functools import partial
from typing import Annotated

import typer

from pallas_cli.broker import DEFAULT_DATA, AsJson, Data, NatsUrl, run_on
from pallas_cli.completing import complete_team
from pallas_cli.options import After, Limit, Page, Yes

app = typer.Typer()


@app.command("list")
def list_teams(
    limit: Limit = None,
    after: After = None,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """List teams with their shard, their earlier ones and queued turns."""
    from pallas_cli.shards.listing import show_shards

    run_on(nats, data, partial(show_shards, page=Page(limit, after), as_json=as_json))


@app.command()
def show(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="The team.", autocompletion=complete_team)],
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Show the shard of one team, its earlier ones and queued turns."""
    from pallas_cli.shards.listing import show_shard

    run_on(nats, data, partial(show_shard, team=team, as_json=as_json))


@app.command()
def move(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="The team.", autocompletion=complete_team)],
    shard: Annotated[int, typer.Argument(metavar="SHARD", min=0, help="The shard for its new turns.")],
    yes: Yes = False,
    nats: NatsUrl = None,
    data: Data = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Have new turns of a team in another shard. Turns that exist stay where they are, and nothing is restarted.

    It can return only when the log that it leaves has forgotten its turns.
    """
    from pallas_cli.shards.moving import move_team

    run_on(nats, data, partial(move_team, team=team, shard=shard, yes=yes, as_json=as_json), doing=None)
