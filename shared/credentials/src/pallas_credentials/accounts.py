"""HTTP Basic accounts. A password is checked by Argon2 on a thread, and one that was right is known for a minute.

What is known is a keyed digest; the key is this process's own. A wrong name costs as much time as a wrong password.

Checks are dear, so whoever guesses passwords could keep others out. Each account has a queue of its own. In it those go
first whose password was right before, then addresses in the order of how often they have tried: of many that guess,
each holds a newcomer up once.
"""

import asyncio
import base64
import binascii
import hmac
import itertools
import secrets
import time
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from pallas_contracts.errors import Unavailable

REMEMBERED_SECONDS = 60.0
WAITING, WAITING_OF_ADDRESS = 1024, 64
"""Checks that may wait for an account, and those of one address; what is over that is refused."""
WAIT_SECONDS = 60.0
"""How long a check may wait."""
ADDRESSES = 10_000
"""Addresses of which is known how often they have tried."""
LONGEST = 1024
"""Characters of an Authorization header that are looked at."""

_hasher = PasswordHasher()


@dataclass(eq=False)
class _Place:
    """A place in the queue: the least `rank` is next, of equal ones who came first."""

    rank: tuple[int, int]
    address: str
    turn: asyncio.Future[None]


@dataclass
class Admission:
    """The checks of one account, one after the other; `slot` is held by the one of the process that runs.

    One takes all cores, and 64 MiB, for a while: two at once are no faster than one.
    """

    slot: asyncio.Lock = field(default_factory=asyncio.Lock)
    _busy: bool = False
    _waiting: list[_Place] = field(default_factory=list[_Place])
    _tried: dict[str, int] = field(default_factory=dict[str, int])
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def verify(self, password_hash: str, password: str, address: str, *, first: bool = False) -> bool:
        """Whether the password is the one of the hash. `first` goes before everybody else who waits.

        Raises:
            Unavailable: too many wait already, of this address or of all, or it took too long.
        """
        await self._wait(_network(address), first=first)
        try:
            async with self.slot:
                return await asyncio.to_thread(_verify, password_hash, password)
        finally:
            self._next()

    async def _wait(self, address: str, *, first: bool) -> None:
        tried = self._tried.pop(address, 0)
        self._tried[address] = tried + 1
        if len(self._tried) > ADDRESSES:
            del self._tried[next(iter(self._tried))]
        if not self._busy:
            self._busy = True
            return
        if not first and sum(place.address == address for place in self._waiting) >= WAITING_OF_ADDRESS:
            raise _busy()
        loop = asyncio.get_running_loop()
        place = _Place((-1 if first else tried, next(self._numbers)), address, loop.create_future())
        insort(self._waiting, place, key=lambda one: one.rank)
        if len(self._waiting) > WAITING:
            self._refuse(self._waiting[-1])
        deadline = loop.call_later(WAIT_SECONDS, self._refuse, place)
        try:
            await place.turn
        finally:
            deadline.cancel()

    def _refuse(self, place: _Place) -> None:
        if place in self._waiting:
            self._waiting.remove(place)
            place.turn.set_exception(_busy())

    def _next(self) -> None:
        """Let the next one have its turn. When nobody waits, it is forgotten who has tried how often."""
        while self._waiting:
            place = self._waiting.pop(0)
            if not place.turn.done():
                place.turn.set_result(None)
                return
        self._busy = False
        self._tried.clear()


def _busy() -> Unavailable:
    return Unavailable("too many passwords to check at once; try again", code="busy")


def _network(address: str) -> str:
    """What counts as one address: of IPv6 a network of 64 bits, for everybody has as many addresses as that."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or ip.packed[:8].hex())
    return address


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
    admission: Admission = field(default_factory=Admission)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _right: bytes = field(default=b"", repr=False)
    _known_until: float = 0.0
    _checks: dict[tuple[bytes, str], asyncio.Task[bool]] = field(
        default_factory=dict[tuple[bytes, str], "asyncio.Task[bool]"], repr=False
    )

    async def lets_in(self, authorization: str | None, address: str) -> bool:
        """Whether an Authorization header, sent from `address`, holds this account's name and password.

        Raises:
            Unavailable: too many passwords are being checked.
        """
        given = _parse(authorization)
        if given is None or self.password_hash is None:
            return False
        name, password = given
        digest = hmac.digest(self._key, f"{name}:{password}".encode(), "sha256")
        if digest == self._right and time.monotonic() < self._known_until:
            return True
        # The same credentials that come at once are checked once.
        key = digest, address
        check = self._checks.get(key)
        if check is None:
            work = self._check(self.password_hash, name, password, digest, address)
            check = self._checks[key] = asyncio.create_task(work)
            check.add_done_callback(lambda _: self._checks.pop(key, None))
        return await asyncio.shield(check)

    async def _check(self, password_hash: str, name: str, password: str, digest: bytes, address: str) -> bool:
        right = await self.admission.verify(password_hash, password, address, first=digest == self._right)
        if not (hmac.compare_digest(name.encode(), self.name.encode()) and right):
            return False
        self._right, self._known_until = digest, time.monotonic() + REMEMBERED_SECONDS
        return True


class Accounts:
    """Some accounts of one process, by name. One that has no password hash is closed."""

    def __init__(self, hashes: Mapping[str, str | None]) -> None:
        slot = asyncio.Lock()
        self._open = {name: Account(name, kept, Admission(slot)) for name, kept in hashes.items() if kept is not None}

    async def who(self, authorization: str | None, address: str) -> str | None:
        """The account whose name and password an Authorization header from `address` holds; None without one.

        Raises:
            Unavailable: too many passwords are being checked.
        """
        given = _parse(authorization)
        if given is None or not self._open:
            return None
        account = self._open.get(given[0]) or next(iter(self._open.values()))
        return account.name if await account.lets_in(authorization, address) else None


def _parse(authorization: str | None) -> tuple[str, str] | None:
    scheme, _, encoded = (authorization or "")[:LONGEST].strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None
