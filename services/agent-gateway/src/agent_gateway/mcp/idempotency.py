"""The idempotency key of a call: who repeats the call with the same key gets the same turn, or cancels it."""

from collections.abc import Mapping
from typing import Any

from pallas_calls.model import Refusal

KEY_META = "pallas/idempotency-key"
CANCEL_META = "pallas/cancel"
MAX_LENGTH = 200


def idempotency_key(meta: Mapping[str, Any] | None) -> str | Refusal | None:
    """The key in the `_meta` of a call, None without one; a refusal if it is invalid, or a cancel has none."""
    if not meta or KEY_META not in meta:
        missing = Refusal("invalid_arguments", f"_meta[{CANCEL_META!r}] needs _meta[{KEY_META!r}]")
        return missing if cancels(meta) else None
    key = meta[KEY_META]
    if isinstance(key, str) and 1 <= len(key) <= MAX_LENGTH:
        return key
    return Refusal("invalid_arguments", f"_meta[{KEY_META!r}] must be a string of 1 to {MAX_LENGTH} characters")


def cancels(meta: Mapping[str, Any] | None) -> bool:
    """Whether a call is an order to cancel the turn of its idempotency key."""
    return (meta or {}).get(CANCEL_META) is True
