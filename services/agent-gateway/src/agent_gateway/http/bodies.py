"""Request bodies that are read before the SDK gets them."""

from dataclasses import dataclass

from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads

_SHORT = 64 * 1024


@dataclass(frozen=True)
class Body:
    """A received body."""

    whole: bytes

    @property
    def is_short(self) -> bool:
        """Whether it is short enough for the gateway's own path of calls."""
        return len(self.whole) <= _SHORT

    @property
    def may_call(self) -> bool:
        """Whether this may be a `tools/call`; a body that is long or cannot be read may be one, and so may a batch."""
        try:
            message = loads(self.whole) if self.is_short else None
        except Rejected:
            return True
        return message.get("method", "tools/call") == "tools/call" if isinstance(message, dict) else True
