"""Options of commands that are about turns."""

from typing import Annotated

import typer

from pallas_cli.completing import complete_team, complete_turn
from pallas_cli.moments import is_moment

Team = Annotated[str | None, typer.Option(help="Only this team.", autocompletion=complete_team)]
Agent = Annotated[str | None, typer.Option(help="Only agents of this name.")]
Caller = Annotated[str | None, typer.Option(help="Only callers whose name contains this.")]
Conversation = Annotated[
    str | None, typer.Option(help="Only this conversation. The id is the caller's `conversation_id`.")
]
Task = Annotated[str | None, typer.Option(help="Only this task. The id is the caller's `task_id`.")]
Until = Annotated[
    str | None, typer.Option(help="End of the period: a time span before now or an ISO 8601 time.", callback=is_moment)
]
TurnName = Annotated[str, typer.Argument(metavar="TURN", help="Id of the turn.", autocompletion=complete_turn)]
TurnNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="TURN", help="Ids of turns, instead of options.", autocompletion=complete_turn),
]
Since = Annotated[
    str | None,
    typer.Option(
        help="Start of the period: a time span before now (30m, 2h, 7d) or an ISO 8601 time. Default: all.",
        callback=is_moment,
    ),
]
Ended = Annotated[str | None, typer.Option(help="Only this state: completed, failed, cancelled or input_required.")]
