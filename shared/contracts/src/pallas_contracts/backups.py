"""What a restore leaves behind: the hold, and what operators decide about the turns of the backup."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from pallas_contracts.bounds import Line
from pallas_contracts.ids import Token
from pallas_contracts.message import Message

type Decision = (
    Annotated[Literal["run"], "Execute it when the hold is released."]
    | Annotated[Literal["cancel"], "It is cancelled, and nothing more of it is executed."]
    | Annotated[Literal["done"], "It is marked as done without being executed; its answer is not known."]
)
"""What an operator decides about a turn of a backup."""


class Hold(Message):
    """Why executors take no turns (KV bucket `holds`, key `restore`). They do until it has a `released_at`.

    The turns of the backup are those at positions up to `queue_end` of the queue, and up to `log_end` of the log.
    `complete`: the restore has finished. Before, nothing that the broker or the databases have can be trusted.
    """

    backup: Token
    taken_at: datetime
    restored_at: datetime
    restored_by: Line
    complete: bool = False
    queue_end: Annotated[int, Field(ge=0)] = 0
    log_end: Annotated[int, Field(ge=0)] = 0
    released_at: datetime | None = None
    released_by: Line | None = None

    @property
    def active(self) -> bool:
        """Whether executors take no turns."""
        return self.released_at is None


class TurnDecided(Message):
    """An operator has decided about a turn of a backup (subject `decided.turn`). The last decision counts."""

    turn_id: Token
    team: Token
    agent: Token
    decision: Literal["run", "cancel", "done"]
    backup: Token | None = None
    by: Line
    at: datetime
