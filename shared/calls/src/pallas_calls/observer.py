"""How a call learns what happens to its turn."""

from pallas_bus.turnlog.cursor import Cursor


class Observer:
    """The caller's side of one call. Its methods may be slow; they never fail.

    This one wants to know the end of the turn only. Others set `listens` and override what they report.
    """

    listens = False

    async def on_admitted(self) -> None:
        """The call is within all limits. Its turn is put into its queue, or joined, as soon as this returns."""

    async def on_followed(self) -> None:
        """The turn is followed from here on."""

    async def on_queued(self, ahead: int) -> None:
        """The turn waits; `ahead` turns are in front of it."""

    async def on_attempt(self, attempt: int) -> None:
        """The worker of the last attempt was lost, and `attempt` begins. What was reported before is void."""

    async def on_event(self, event: object, cursor: Cursor, /) -> None:
        """Something happened in the turn; `cursor` is how far the caller has been told with it."""

    def caller_left(self) -> bool:
        """Whether a cancelled call means that its caller left; otherwise the turn goes on without a follower."""
        return False
