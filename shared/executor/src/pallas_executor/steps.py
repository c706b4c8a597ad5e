"""The steps of one attempt. A call that an earlier attempt made is not made again: its answer is in the journal."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager

from pallas_contracts.turns import Answered, Continued, Restarted, ToolStarted
from pallas_executor.agent_runtime import Emitter, Failed, Turn
from pallas_executor.journal import NO_JOURNAL


class JournalUnusable(Exception):
    """The journal does not fit what the agent does now, or an answer in it cannot be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Steps:
    """Takes answers from the journal of earlier attempts, and adds those of this one."""

    def __init__(self, turn: Turn, emit: Emitter) -> None:
        self.turn = turn
        self._journal = turn.journal
        self._boundary = turn.boundary
        self._emit = emit
        self._continued = not turn.journal.answers
        self._effect = turn.journal.effect
        self._taken = set[str]()
        self._unusable: JournalUnusable | None = None

    @property
    def ending(self) -> bool:
        """Whether the attempt is being cancelled from outside."""
        return self._boundary.ending

    def answer(self, call: str, basis: str) -> str | None:
        """The answer of a call, as JSON; None if it is to be made now.

        Raises:
            JournalUnusable: something else was called there.
        """
        entry = self._journal.answers.get(call)
        if entry is None:
            return None
        if entry.basis != basis:
            raise self.mismatch(f"call {call} was {entry.basis!r}, and is {basis!r} now")
        self._taken.add(call)
        return entry.answer

    def check_usable(self) -> None:
        """Check that no answer was found that cannot be used: a function may have caught the exception.

        Raises:
            JournalUnusable: there was one.
        """
        if self._unusable is not None:
            raise self._unusable

    def check_all_taken(self) -> None:
        """Check at the end that every answer was asked for; those inside an answered call are not.

        Raises:
            JournalUnusable: calls that were made before have not been made now.
        """
        for call, entry in self._journal.answers.items():
            parts = call.split(".")
            if not any(".".join(parts[:length]) in self._taken for length in range(1, len(parts) + 1)):
                raise self.mismatch(f"call {call} was {entry.basis!r}, and is not made now")

    def mismatch(self, reason: str) -> JournalUnusable:
        """The exception for an answer that cannot be used. It is kept, because a function may catch it."""
        self._unusable = JournalUnusable(reason)
        return self._unusable

    def is_unknown(self, call: str) -> bool:
        """Whether an earlier attempt started this call of a tool, and nobody knows what became of it."""
        return call in self._journal.unknown

    def begin(self, n: int) -> None:
        """Step `n` of the agent begins. The first one is where this attempt goes on."""
        if not self._continued:
            self._continued = True
            self._emit.emit(Continued(n=n, taken=tuple(self._journal.answers)))

    async def tool_starting(self, event: ToolStarted) -> None:
        """Publish that a tool is about to be called, as `Emitter` does."""
        if event.leaf and not event.safe:
            self._effect = event
        await self._emit.tool_starting(event)

    def under_way(self, *, safe: bool = False) -> AbstractAsyncContextManager[None]:
        """Make a call inside the block. While the worker drains, it does not begin (see `Boundary`)."""
        return self._boundary.step(safe=safe)

    def elsewhere(self) -> AbstractContextManager[None]:
        """Wait inside the block for another turn. A drain may stop the attempt meanwhile: the next one joins it."""
        return self._boundary.elsewhere()

    def hold(self) -> None:
        """From here on a drain does not stop the attempt."""
        self._boundary.hold()

    async def record(self, call: str, basis: str, answer: str | None) -> None:
        """Add the answer of a call, as JSON; None if it has none.

        Without an answer, or with one that is too large to be kept, this is a gap in the journal: what follows from it
        would be lost with the attempt. So a drain does not stop the attempt any more.
        """
        if not await self._emit.answered(Answered(call=call, basis=basis, answer=answer)):
            self.hold()

    def restart(self) -> Failed | None:
        """Start the attempt anew, without the journal. Returns why not, if a tool may have had an effect."""
        if (tool := self._effect) is not None:
            return Failed(
                "worker_lost",
                "The turn cannot go on where it stopped, because the agent has changed meanwhile. It is not executed "
                f"again, because the tool {tool.server}/{tool.tool} had started. Check before you retry.",
            )
        self._journal, self._continued, self._unusable = NO_JOURNAL, True, None
        self._emit.emit(Restarted())
        return None
