"""Request bodies that are read before the SDK gets them: in the handshake era, and to find a caller's trace."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

_SHORT = 64 * 1024


@dataclass(frozen=True)
class Body:
    """A received body."""

    whole: bytes

    @property
    def short(self) -> bytes | None:
        """The body, or None when it is too long for the gateway's own path of calls."""
        return self.whole if len(self.whole) <= _SHORT else None

    @cached_property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message; empty when the body is not a JSON object."""
        try:
            message: Any = json.loads(self.whole)
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", message) if isinstance(message, dict) else {}  # JSON objects have string keys

    @property
    def may_call(self) -> bool:
        """Whether this may be a `tools/call`; a body that is long or cannot be parsed may be one."""
        return self.short is None or self.message.get("method", "tools/call") == "tools/call"
