"""The caller's own name for a call, which it may send again when it does not know what became of it."""

from collections.abc import Mapping
from typing import Any

from pallas_calls.model import Refusal

KEY_META = "pallas/idempotency-key"
MAX_LENGTH = 200


def idempotency_key(meta: Mapping[str, Any] | None) -> str | Refusal | None:
    """The idempotency key of a call with that `_meta`; None when it has none."""
    if not meta or KEY_META not in meta:
        return None
    key = meta[KEY_META]
    if isinstance(key, str) and 1 <= len(key) <= MAX_LENGTH:
        return key
    return Refusal("invalid_arguments", f"_meta[{KEY_META!r}] must be a string of 1 to {MAX_LENGTH} characters")
