"""Keyed hashes and signatures, with one key that all replicas share.

Without the key, the log does not help to guess a conversation id or to forge an event id. Each use has its own key,
derived from the shared one, so that a value made for one use is invalid for another.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field

from pallas_contracts.errors import Rejected
from pallas_contracts.ids import TurnId, derived_turn_id

_TAG = 16
"""Bytes of a signature that are kept."""


@dataclass(frozen=True)
class LogKey:
    """The key (setting `PALLAS_LOG_KEY`). It is never printed."""

    secret: str = field(repr=False)

    def conversation(self, correlation: str) -> str:
        """The keyed hash of a caller's conversation id, as the log keeps it: 32 hex digits."""
        return self._mac("conversation", correlation.encode()).hex()[:32]

    def task(self, task: str) -> str:
        """The keyed hash of a caller's task id, as the log keeps it: 32 hex digits."""
        return self._mac("task", task.encode()).hex()[:32]

    def digest(self, *parts: object) -> str:
        """A digest of JSON values, to compare two calls: 32 hex digits."""
        return self._mac("digest", _canonical(parts)).hex()[:32]

    def turn_id(self, *parts: object) -> TurnId:
        """The id of the turn that JSON values identify, the same on every replica: a version 8 UUID in hex."""
        return derived_turn_id(self._mac("turn", _canonical(parts)))

    def sign(self, use: str, value: object) -> str:
        """A JSON value with a signature, as base64url without padding. It is not encrypted."""
        payload = _canonical(value)
        return base64.urlsafe_b64encode(self._mac(use, payload)[:_TAG] + payload).decode().rstrip("=")

    def verify(self, use: str, token: str) -> object:
        """The value of a signed token.

        Raises:
            Rejected: it was not signed with this key for this use.
        """
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            raw = b""
        tag, payload = raw[:_TAG], raw[_TAG:]
        if not hmac.compare_digest(tag, self._mac(use, payload)[:_TAG]):
            raise Rejected("the token is not one of ours", code="bad_token")
        return json.loads(payload)

    def _mac(self, use: str, value: bytes) -> bytes:
        derived = hmac.digest(self.secret.encode(), f"pallas {use}".encode(), "sha256")
        return hmac.digest(derived, value, hashlib.sha256)


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
