"""The account of admins, by HTTP Basic. Argon2 checks a password on a thread; one that was right is known for a minute.

What is known is a keyed digest; the key is this process's own. A wrong name costs as much time as a wrong password.
"""

import asyncio
import base64
import binascii
import hmac
import secrets
import time

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from pallas_contracts.errors import Unavailable

ADMIN = "admin"
REMEMBERED_SECONDS = 60.0
WAITING = 16
"""Checks that may wait for the one that runs; further ones are refused."""
_LONGEST = 1024

_hasher = PasswordHasher()


class AdminAccount:
    """The account. Without a hash of its password it is closed."""

    def __init__(self, password_hash: str | None) -> None:
        self._hash = password_hash
        self._key = secrets.token_bytes(32)
        self._known = (b"", 0.0)
        self._slot = asyncio.Lock()
        self._waiting = 0

    async def lets_in(self, authorization: str | None) -> bool:
        """Whether an Authorization header holds the account's name and password.

        Raises:
            Unavailable: too many passwords wait to be checked.
        """
        given = _parse(authorization)
        if given is None or self._hash is None:
            return False
        digest = hmac.digest(self._key, ":".join(given).encode(), "sha256")
        if self._is_known(digest):
            return True
        if self._waiting >= WAITING:
            raise Unavailable("too many passwords to check at once; try again", code="busy")
        self._waiting += 1
        try:
            async with self._slot:
                if self._is_known(digest):
                    return True
                right = await asyncio.to_thread(_verify, self._hash, given[1])
        finally:
            self._waiting -= 1
        if not (hmac.compare_digest(given[0].encode(), ADMIN.encode()) and right):
            return False
        self._known = (digest, time.monotonic() + REMEMBERED_SECONDS)
        return True

    def _is_known(self, digest: bytes) -> bool:
        return hmac.compare_digest(self._known[0], digest) and self._known[1] > time.monotonic()


def _verify(password_hash: str, password: str) -> bool:
    try:
        return _hasher.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


def _parse(authorization: str | None) -> tuple[str, str] | None:
    scheme, _, encoded = (authorization or "")[:_LONGEST].strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None
