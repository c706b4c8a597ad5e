"""The interface by which a call is notified of its turn."""

from pallas_bus.turnlog.cursor import Cursor


class Observer:
    """Is notified of the turn of one call. Its methods may be slow; they never fail.

    This base class ignores all events. Others set `listens` (and `text`) and override the methods that they need.
    """

    listens = False
    text = False
    """Whether it is notified of pieces of models' text, too."""

    async def on_admitted(self) -> None:
        """The call is within all limits. Its turn is submitted or joined as soon as this returns."""

    async def on_followed(self) -> None:
        """The turn is followed from here on."""

    async def on_queued(self, ahead: int) -> None:
        """The turn waits; `ahead` turns are in front of it."""

    async def on_attempt(self, attempt: int) -> None:
        """The last attempt was lost, and `attempt` starts anew. What was reported before does not count any more."""

    async def on_event(self, event: object, cursor: Cursor, /) -> None:
        """An event of the turn; `cursor` is the cursor behind it."""

    def caller_left(self) -> bool:
        """Whether a cancelled call means that its caller left; otherwise the turn runs on."""
        return False

    def why_left(self) -> str:
        """How the caller left, as the reason of the cancel."""
        return "the caller closed the stream"
