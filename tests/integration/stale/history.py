"""What a bearer may be answered, as its changes are sent and confirmed; pure, so that it can be tested by itself."""

from dataclasses import dataclass, field
from typing import Literal

type Verdict = Literal["right", "stale", "wrong"]


@dataclass
class State:
    """How a bearer is answered from a change on: `sent` then, `confirmed` when its 2xx came."""

    outcome: str
    sent: float
    confirmed: float | None = None


@dataclass
class History:
    """The states of one bearer. One change of it is under way at a time."""

    states: list[State] = field(default_factory=list[State])

    @property
    def last(self) -> str:
        """What it will be answered when nothing else happens."""
        return self.states[-1].outcome

    def judge(self, outcome: str, began: float, ended: float) -> Verdict:
        """Judge the answer of a look-up that took from `began` to `ended`.

        It may be what the last change said that was confirmed before it began, or what any later one says that was sent
        before it ended. What was so before that is stale; anything else was never so.
        """
        confirmed = [number for number, state in enumerate(self.states) if (state.confirmed or ended) <= began]
        first = confirmed[-1] if confirmed else 0
        if any(state.outcome == outcome and state.sent <= ended for state in self.states[first:]):
            return "right"
        return "stale" if any(state.outcome == outcome for state in self.states[:first]) else "wrong"
