"""The idempotency key of a call: with the same key the caller can repeat the call and gets the same turn."""

from collections.abc import Mapping
from typing import Any

from pallas_calls.model import Refusal

KEY_META = "pallas/idempotency-key"
MAX_LENGTH = 200


def idempotency_key(meta: Mapping[str, Any] | None) -> str | Refusal | None:
    """The idempotency key in the `_meta` of a call, None without one, a refusal when it is invalid."""
    if not meta or KEY_META not in meta:
        return None
    key = meta[KEY_META]
    if isinstance(key, str) and 1 <= len(key) <= MAX_LENGTH:
        return key
    return Refusal("invalid_arguments", f"_meta[{KEY_META!r}] must be a string of 1 to {MAX_LENGTH} characters")
