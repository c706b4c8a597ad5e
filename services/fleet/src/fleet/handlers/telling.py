"""Progress of calls that wait."""

from dataclasses import dataclass

from pallas_executor.functions.context import CallContext


@dataclass
class Telling:
    """Tells the caller each new state of `what`."""

    ctx: CallContext
    what: str
    _told: int = 0
    _last: str | None = None

    def tell(self, state: str) -> None:
        """Tell a state, unless it is the last one."""
        if state != self._last:
            self._last, self._told = state, self._told + 1
            self.ctx.progress(self._told, message=f"{self.what}: {state}")
