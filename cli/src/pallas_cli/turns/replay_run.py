"""Replays of many turns under way: follows them to their ends, and reports how far they are."""

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Any

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import stored_outcomes
from pallas_calls.replay_many import ManyReplays
from pallas_cli.plain_text import print_plain
from pallas_cli.turns.counts import counts_text, turns_text
from pallas_contracts.turns import TurnOutcome

_LOOK = 0.5
"""Seconds between two reads of the ends. One request covers a thousand turns."""

_REPORT, _REPORT_FILE = 1.0, 10.0
"""Seconds between two lines of progress, on a terminal and elsewhere."""


@dataclass
class ReplayRun:
    """`total` turns are to be queued by `many`. `ended` has the outcomes by the id of the new turn."""

    bus: Bus
    many: ManyReplays
    total: int
    ended: dict[str, TurnOutcome] = field(default_factory=dict[str, TurnOutcome])
    _began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    _said: float = 0.0
    _full: str = ""

    @property
    def failed(self) -> int:
        """New turns that ended without an answer."""
        return sum(outcome.status != "completed" for outcome in self.ended.values())

    async def to_the_end(self, *, detach: bool) -> None:
        """Queue all, and follow them to their ends unless `detach` is set.

        Raises:
            Unavailable: the broker does not answer.
        """
        queueing = asyncio.create_task(self.many.queue_all())
        try:
            while not queueing.done():
                await asyncio.wait({queueing}, timeout=_LOOK)
                await self._look(detach=detach)
            await queueing
        finally:
            queueing.cancel()
        while not detach and len(self.ended) < len(self.many.queued):
            await asyncio.sleep(_LOOK)
            await self._look(detach=detach)

    async def _look(self, *, detach: bool) -> None:
        """Read the ends of the turns that have none yet, and report."""
        left = [ref for ref in self.many.queued.values() if ref.turn_id not in self.ended and not detach]
        self.ended |= await stored_outcomes(self.bus, left)
        self._report()

    def waits(self, agent: str) -> None:
        """Note that the queue of an agent is full."""
        self._full = f"; the queue of {agent.replace('.', '/')} is full, waiting"

    def _report(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.total and now - self._said >= (_REPORT if sys.stderr.isatty() else _REPORT_FILE):
            self._said = now
            self.say(f"{self.progress}{self._full}")
            self._full = ""

    def say(self, text: str) -> None:
        """Print a line of progress to standard error."""
        print_plain(f"{asyncio.get_running_loop().time() - self._began:9.1f} {text}", err=True)

    @property
    def progress(self) -> str:
        """How many are queued, have ended, and are left."""
        queued, skipped = len(self.many.queued), len(self.many.skipped)
        left = self.total - queued - skipped - len(self.many.refused)
        return f"{queued} queued, {len(self.ended) - self.failed} completed, {self.failed} failed, {left} left"

    @property
    def summary(self) -> str:
        """The last lines: what became of the turns, and which could not be queued."""
        many, open_turns = self.many, len(self.many.queued) - len(self.ended)
        states = counts_text(outcome.code or outcome.status for outcome in self.ended.values())
        parts = [states, f"not ended {open_turns}" if open_turns else ""]
        if open_turns and not self.ended:
            parts = ["they go on without this command"]
        said = f"{turns_text(len(many.queued))} {'executed again' if self.ended or not many.queued else 'queued again'}"
        lines = [f"{said}: {', '.join(filter(None, parts)) or 'nothing to do'}."]
        if many.skipped:
            lines.append(f"{turns_text(len(many.skipped))} replayed by another command meanwhile.")
        if many.refused:
            codes = counts_text(why.partition(":")[0] for why in many.refused.values())
            lines.append(f"{turns_text(len(many.refused))} refused: {codes}.")
            lines.append(f"The first: {next(iter(many.refused.values()))}")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The same as plain values, with each new turn."""
        replays = [
            {"turn": old, "replay": ref.turn_id, **_end(self.ended.get(ref.turn_id))}
            for old, ref in self.many.queued.items()
        ]
        return {"replays": replays, "replayed_meanwhile": self.many.skipped, "refused": self.many.refused}


def _end(outcome: TurnOutcome | None) -> dict[str, str | None]:
    return {"state": outcome.status if outcome else None, "code": outcome.code if outcome else None}
