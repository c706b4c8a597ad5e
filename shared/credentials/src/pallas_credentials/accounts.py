"""HTTP Basic accounts. A password is checked by Argon2 on a thread, and one that was right is known for a minute.

What is known is a keyed digest; the key is this process's own. A wrong name costs as much time as a wrong password.
"""

import asyncio
import base64
import binascii
import hmac
import secrets
import time
from dataclasses import dataclass, field

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from pallas_contracts.errors import Unavailable

REMEMBERED_SECONDS = 60.0
AT_ONCE = 1
"""Checks that may run at the same time: each takes all cores, and 64 MiB, for a while. Two are no faster than one."""
WAITING = 32
"""Checks that may wait for that; further ones are refused."""
LONGEST = 1024
"""Characters of an Authorization header that are looked at."""

_hasher = PasswordHasher()


@dataclass
class Gatekeeper:
    """Bounds what checking passwords costs this process."""

    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    waiting: int = 0

    async def verify(self, password_hash: str, password: str) -> bool:
        """Whether the password is the one of the hash.

        Raises:
            Unavailable: too many wait already.
        """
        if self.waiting >= WAITING:
            raise Unavailable("too many passwords to check at once; try again", code="busy")
        self.waiting += 1
        try:
            async with self.slots:
                return await asyncio.to_thread(_verify, password_hash, password)
        finally:
            self.waiting -= 1


def _verify(password_hash: str, password: str) -> bool:
    try:
        return _hasher.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


@dataclass
class Account:
    """One account. `password_hash` None closes it."""

    name: str
    password_hash: str | None = field(repr=False)
    gatekeeper: Gatekeeper = field(default_factory=Gatekeeper)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _known: dict[bytes, float] = field(default_factory=dict[bytes, float], repr=False)
    _checks: dict[bytes, asyncio.Task[bool]] = field(default_factory=dict[bytes, "asyncio.Task[bool]"], repr=False)

    async def lets_in(self, authorization: str | None) -> bool:
        """Whether an Authorization header holds this account's name and password.

        Raises:
            Unavailable: too many passwords are being checked.
        """
        given = _parse(authorization)
        if given is None or self.password_hash is None:
            return False
        name, password = given
        digest = hmac.digest(self._key, f"{name}:{password}".encode(), "sha256")
        if self._known.get(digest, 0.0) > time.monotonic():
            return True
        # The same credentials that come at once are checked once.
        check = self._checks.get(digest)
        if check is None:
            check = self._checks[digest] = asyncio.create_task(self._check(self.password_hash, name, password, digest))
            check.add_done_callback(lambda _: self._checks.pop(digest, None))
        return await asyncio.shield(check)

    async def _check(self, password_hash: str, name: str, password: str, digest: bytes) -> bool:
        right = await self.gatekeeper.verify(password_hash, password)
        if not (hmac.compare_digest(name.encode(), self.name.encode()) and right):
            return False
        self._known = {digest: time.monotonic() + REMEMBERED_SECONDS}
        return True


def _parse(authorization: str | None) -> tuple[str, str] | None:
    scheme, _, encoded = (authorization or "")[:LONGEST].strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None
