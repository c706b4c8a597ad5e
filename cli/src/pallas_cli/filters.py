"""Options that say which turns are meant."""

from typing import Annotated

import typer

from pallas_cli.completing import complete_team, complete_turn
from pallas_cli.moments import is_moment

_TIME = "a time span before now (30m, 2h, 7d) or an ISO 8601 time"

Team = Annotated[str | None, typer.Option(help="Only this team.", autocompletion=complete_team)]
Agent = Annotated[str | None, typer.Option(help="Only agents of this name.")]
Caller = Annotated[str | None, typer.Option(help="Only callers whose name contains this.")]
Since = Annotated[str, typer.Option(help=f"Start of the period: {_TIME}.", callback=is_moment)]
SinceAny = Annotated[str | None, typer.Option(help=f"Start of the period: {_TIME}.", callback=is_moment)]
Until = Annotated[str | None, typer.Option(help=f"End of the period: {_TIME}.", callback=is_moment)]
Conversation = Annotated[
    str | None, typer.Option(help="Only this conversation. The id is the caller's `conversation_id`.")
]
Task = Annotated[str | None, typer.Option(help="Only this task. The id is the caller's `task_id`.")]
TurnName = Annotated[str, typer.Argument(metavar="TURN", help="Id of the turn.", autocompletion=complete_turn)]
TurnNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="TURN", help="Ids of turns, instead of options.", autocompletion=complete_turn),
]
StateName = Annotated[
    str | None, typer.Option(help="Only this state: waiting, running, completed, failed, cancelled or input_required.")
]
