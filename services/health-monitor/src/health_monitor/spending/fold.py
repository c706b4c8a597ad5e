"""Adds up what calls of models have cost, by day, team and caller.

Each sum knows the position in the log up to which it counts, so the log may be read again from any earlier
position: every call counts once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pallas_contracts.costs import Spending
from pallas_contracts.turns import TurnEvents
from pallas_turns.history.spending import NewCalls, spending_of

type Key = tuple[str, str, str]
"""Day, team and caller."""


@dataclass
class SpendingFold:
    """The sums of a log that was created at `log`. Calls before the day `since` do not count."""

    log: str
    since: str
    entries: dict[Key, Spending] = field(default_factory=dict["Key", Spending])
    changed: set[Key] = field(default_factory=set["Key"])
    _calls: NewCalls = field(default_factory=NewCalls)

    def load(self, stored: Mapping[Key, Spending], last: int) -> None:
        """Begin with what is stored. `last` is the last position of the log: it may be a new one, or an older copy."""
        for key, entry in stored.items():
            position = min(entry.position, last) if entry.log == self.log else 0
            self.entries[key] = entry.model_copy(update={"position": position, "log": self.log})

    def take(self, position: int, message: TurnEvents) -> None:
        """Count the calls of models in a message of the log. Messages come in the order of the log."""
        spent: dict[Key, Spending] = {}
        for call in self._calls.of(message):
            one = spending_of(message.team, call)
            key = one.day, one.team, one.caller
            if one.day >= self.since:
                spent[key] = spent[key].plus(one) if key in spent else one
        for key, more in spent.items():
            entry = self.entries.get(key, Spending(day=key[0], team=key[1], caller=key[2]))
            if position > entry.position:
                self.entries[key] = entry.plus(more).model_copy(update={"position": position, "log": self.log})
                self.changed.add(key)

    def forget_before(self, day: str) -> None:
        """Forget the sums of earlier days; they stay in the bucket until they expire."""
        self.since = day
        self.entries = {key: entry for key, entry in self.entries.items() if key[0] >= day}
        self.changed = {key for key in self.changed if key[0] >= day}
