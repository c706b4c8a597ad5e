"""Request bodies that are read before the SDK gets them."""

from dataclasses import dataclass

from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads

_SHORT = 64 * 1024
"""Bytes of a body that is read before its sender is known."""


@dataclass(frozen=True)
class Body:
    """A received body."""

    whole: bytes

    @property
    def may_call(self) -> bool:
        """Whether this may be a `tools/call`; a body that is long or cannot be read may be one, and so may a batch."""
        try:
            message = loads(self.whole) if len(self.whole) <= _SHORT else None
        except Rejected:
            return True
        return message.get("method", "tools/call") == "tools/call" if isinstance(message, dict) else True
