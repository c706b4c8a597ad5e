"""Event streams that are open at this gateway, with limits: in all, and for each caller."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pallas_contracts.turns import Principal


@dataclass(frozen=True, slots=True)
class OpenStreams:
    """At most `most` streams, and `of_a_caller` of each caller. `what` names them in a refusal."""

    what: str
    most: int
    of_a_caller: int
    _open: Counter[str] = field(default_factory=Counter[str])

    def full(self, caller: Principal) -> str | None:
        """Why the caller can open no further stream now; None if it can."""
        if self._open[caller.token] >= self.of_a_caller:
            return f"This caller has {self.of_a_caller} {self.what} open, and can have no more."
        return f"Too many {self.what} are open." if self._open.total() >= self.most else None

    @contextmanager
    def opened(self, caller: Principal) -> Generator[None]:
        """Count a stream of the caller inside the block."""
        self._open[caller.token] += 1
        try:
            yield
        finally:
            self._open[caller.token] -= 1
            if not self._open[caller.token]:
                del self._open[caller.token]
