"""Executes many turns again: shows what it would do, queues them at a rate, and follows them to their ends."""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import typer

from pallas_bus.connection import Bus
from pallas_cli.operators import OPERATOR
from pallas_cli.options import confirm
from pallas_cli.plain_text import print_plain
from pallas_cli.turns.listing import ENDED, Selection, counts_text, select, turns_text, whose_lines
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import TurnOutcome
from pallas_turns.claims import stored_outcomes
from pallas_turns.replay import Choice, Reason, choose_replays
from pallas_turns.replays import ManyReplays, Pace, ReplayRequests


@dataclass(frozen=True, slots=True)
class Wish:
    """How to replay: `rate` turns a second, with `model` instead of the agents' own if given.

    With `detach`, the command does not wait for the ends.
    """

    rate: float
    model: str | None
    detach: bool
    confirmed: bool
    as_json: bool


async def replay_many(bus: Bus, selection: Selection, wish: Wish) -> None:
    """Execute the selected turns again, each once. They can be interrupted and the command repeated.

    Raises:
        Refused: the selection is invalid or not confirmed.
        Exit: with code 1, if a turn could not be queued, or a new turn did not complete.
    """
    turns = await select(bus, _failed_by_default(selection), ENDED)
    choice = await choose_replays(bus, turns, model=wish.model, operator=OPERATOR)
    confirmed = wish.confirmed or not choice.turns
    confirm("these turns are executed again", yes=confirmed, as_json=wish.as_json, after=preview_of(choice, wish.rate))
    many = ManyReplays(bus, choice, Pace(wish.rate), ReplayRequests(bus, OPERATOR, wish.model))
    run = ReplayRun(bus, many, len(choice.turns))
    many.waits = run.waits
    try:
        await run.to_the_end(detach=wish.detach)
    except (asyncio.CancelledError, Unavailable):
        run.say(f"stopped: {run.progress}. What is queued goes on; the same command queues the rest.")
        raise
    if wish.as_json:
        print(json.dumps(facts_of(choice) | run.document(), indent=2))
    else:
        print_plain(run.summary)
    if many.refused or run.failed:
        raise typer.Exit(1)


def _failed_by_default(selection: Selection) -> Selection:
    """A filter that names no state is about failed turns."""
    wanted = selection.wanted
    return selection if wanted.state is not None else replace(selection, wanted=replace(wanted, state="failed"))


_REASONS: Mapping[Reason, str] = {
    "replayed": "replayed already",
    "not_ended": "not ended yet",
    "child": "made by another turn, whose replay makes it again",
    "unknown_agent": "their agent no longer exists, or cannot be used",
    "unknown_model": "their agent has no model to replace",
    "not_allowed": "their caller may no longer use the agent",
    "content_expired": "their request has expired",
}


def preview_of(choice: Choice, rate: float) -> list[str]:
    """The lines: how many turns can be executed again, of which agents, for whom, and why others cannot."""
    turns, count = choice.turns, len(choice.turns)
    lines = [f"{turns_text(count)} to execute again{f', queued in {count / rate:.0f} s or more' if count else ''}"]
    lines += whose_lines(turns)
    if choice.effects:
        lines.append(f"  {len(choice.effects)} called tools that are not marked as safe, and call them again")
    for reason, left in choice.left_out.items():
        lines.append(f"  left out, {_REASONS[reason]}: {len(left)}{_states(choice) if reason == 'replayed' else ''}")
    return lines


def _states(choice: Choice) -> str:
    return f" ({counts_text(turn.state for turn in choice.replays.values())})"


def facts_of(choice: Choice) -> dict[str, Any]:
    """The same as plain values: numbers of turns."""
    return {
        "chosen": len(choice.turns),
        "effects": len(choice.effects),
        "left_out": {reason: len(left) for reason, left in choice.left_out.items()},
    }


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
