"""HTTP Basic accounts. Argon2 checks a password on a thread. A right one is cached for a minute, as a keyed digest.

A wrong name takes as much time as a wrong password.

A check is expensive, so clients that guess passwords could keep others out. Each account has a queue of its own.
Clients whose password was right before go first, then addresses in the order of how often they have tried. So each of
many addresses that guess delays a newcomer once.

Where people log in (`slows_guesses`), an address that guesses is made slower, but not locked out: behind a proxy
everybody may have the same one. Its checks run one by one, each a pause behind the last wrong password. The right one
waits for those before it, 20 s at most.
"""

import asyncio
import base64
import binascii
import hmac
import itertools
import math
import secrets
import time
from bisect import insort
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from pallas_contracts.errors import Unavailable

REMEMBERED_SECONDS = 60.0
WAITING, WAITING_OF_ADDRESS = 1024, 64
"""How many checks may wait for an account, in all and of one address. Further ones are refused."""
FREE, FORGOTTEN_SECONDS = 5, 60.0
"""So many checks of an address run at once, until so many have been wrong. A minute without a wrong one forgives it."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between two checks of an address that guesses. Each wrong password doubles them."""
PAUSING = 4
"""How many checks of an address that guesses may wait. Further ones are refused."""
SUSPICIOUS = 50
"""An address of which so many were refused is not let in without a check."""
WAIT_SECONDS = 60.0
"""Timeout of waiting for a check."""
ADDRESSES = 10_000
"""Maximum number of addresses whose tries are counted. The one that tried longest ago is forgotten."""
LONGEST = 1024
"""Characters of an Authorization header that are read."""

_hasher = PasswordHasher()


@dataclass(eq=False)
class _Waiter:
    """A waiting check. The least `rank` is next: the fewest tries, then the earliest."""

    rank: tuple[int, int]
    address: str
    admitted: asyncio.Future[None]


@dataclass(eq=False)
class _Guesses:
    """The checks of an address: those that were wrong, that run, that wait, and that were refused."""

    wrong: int = 0
    running: int = 0
    pausing: int = 0
    refused: int = 0
    last: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def pause(self) -> float:
        """Seconds until the next check."""
        longest = min(LONGEST_PAUSE, SHORTEST_PAUSE * 2.0 ** min(10, self.wrong - FREE))
        return max(0.0, self.last + longest - time.monotonic()) if self.wrong >= FREE else 0.0

    def settle(self, *, right: bool) -> None:
        """Count a check."""
        if right:
            self.wrong = self.refused = 0
        else:
            self.wrong, self.last = self.wrong + 1, time.monotonic()

    @asynccontextmanager
    async def paced(self) -> AsyncGenerator[None]:
        """Wait until the next check of the address may run, and count it while it does.

        Raises:
            Unavailable: too many of the address wait.
        """
        if self.wrong and time.monotonic() - self.last > FORGOTTEN_SECONDS:
            self.wrong = self.refused = 0
        if self.wrong + self.running < FREE:
            self.running += 1
            try:
                yield
            finally:
                self.running -= 1
            return
        if self.pausing >= PAUSING:
            self.refused += 1
            after = max(1, math.ceil(self.pause()))
            text = f"too many failed logins; try again in {after} s"
            raise Unavailable(text, code="too_many_logins", status=429, retry_after=after)
        self.pausing += 1
        try:
            async with self.turn:
                await asyncio.sleep(self.pause())
                yield
        finally:
            self.pausing -= 1


@dataclass
class Admission:
    """The queue of an account. `slot` is the lock that all accounts share, so that one check runs at a time.

    With `slows_guesses` an address pauses between its checks behind `FREE` wrong passwords.
    A check takes all cores and 64 MiB: two at once are no faster than one.
    """

    slot: asyncio.Lock = field(default_factory=asyncio.Lock)
    slows_guesses: bool = False
    _busy: bool = False
    _waiting: list[_Waiter] = field(default_factory=list[_Waiter])
    _tried: dict[str, int] = field(default_factory=dict[str, int])
    _guesses: dict[str, _Guesses] = field(default_factory=dict[str, _Guesses])
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def verify(self, password_hash: str, password: str, address: str, *, first: bool = False) -> bool:
        """Whether the password matches the hash. With `first` it goes to the front of the queue.

        Raises:
            Unavailable: too many checks wait, of this address or in all, or it waited too long.
        """
        network = network_of(address)
        guesses = self._guesses[network] = self._guesses.pop(network, None) or _Guesses()
        if len(self._guesses) > ADDRESSES:
            del self._guesses[next(iter(self._guesses))]
        async with guesses.paced() if self.slows_guesses else nullcontext():
            await self._wait(network, first=first)
            try:
                async with self.slot:
                    right = await asyncio.to_thread(_verify, password_hash, password)
            finally:
                self._next()
            guesses.settle(right=right)
            return right

    def suspects(self, address: str) -> bool:
        """Whether an address guesses so fast that nothing may tell it at once which password is right."""
        found = self._guesses.get(network_of(address))
        return found is not None and found.refused >= SUSPICIOUS

    async def _wait(self, address: str, *, first: bool) -> None:
        tried = self._tried.pop(address, 0)
        self._tried[address] = tried + 1
        if len(self._tried) > ADDRESSES:
            del self._tried[next(iter(self._tried))]
        if not self._busy:
            self._busy = True
            return
        if not first and sum(waiter.address == address for waiter in self._waiting) >= WAITING_OF_ADDRESS:
            raise _busy()
        loop = asyncio.get_running_loop()
        waiter = _Waiter((-1 if first else tried, next(self._numbers)), address, loop.create_future())
        insort(self._waiting, waiter, key=lambda one: one.rank)
        if len(self._waiting) > WAITING:
            self._refuse(self._waiting[-1])
        deadline = loop.call_later(WAIT_SECONDS, self._refuse, waiter)
        try:
            await waiter.admitted
        finally:
            deadline.cancel()

    def _refuse(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            waiter.admitted.set_exception(_busy())

    def _next(self) -> None:
        """Start the next check. When none waits, the counts of tries are reset."""
        while self._waiting:
            waiter = self._waiting.pop(0)
            if not waiter.admitted.done():
                waiter.admitted.set_result(None)
                return
        self._busy = False
        self._tried.clear()


def _busy() -> Unavailable:
    return Unavailable("too many passwords are being checked; try again", code="busy")


def network_of(address: str) -> str:
    """What counts as one address. Of IPv6 it is the /64 network, since a client may have all its addresses."""
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
        """Whether an Authorization header from `address` has the name and password of this account.

        Raises:
            Unavailable: too many passwords are being checked.
        """
        given = basic_of(authorization)
        return given is not None and await self.has(*given, address)

    async def has(self, name: str, password: str, address: str) -> bool:
        """Whether these are the name and password of this account. `address` is where they come from.

        Raises:
            Unavailable: too many passwords are being checked.
        """
        if self.password_hash is None:
            return False
        try:
            given = f"{name}:{password}".encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can have
            return False
        digest = hmac.digest(self._key, given, "sha256")
        if digest == self._right and time.monotonic() < self._known_until and not self.admission.suspects(address):
            return True
        # Single flight: requests with the same credentials share a check.
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
    """The accounts of a process, by name. An account without a password hash is closed."""

    def __init__(self, hashes: Mapping[str, str | None], *, slows_guesses: bool = False) -> None:
        slot, given = asyncio.Lock(), {name: kept for name, kept in hashes.items() if kept is not None}
        self._open = {name: Account(name, kept, Admission(slot, slows_guesses)) for name, kept in given.items()}

    async def who(self, authorization: str | None, address: str) -> str | None:
        """The account whose name and password an Authorization header from `address` has; None if none.

        Raises:
            Unavailable: too many passwords are being checked.
        """
        given = basic_of(authorization)
        return given[0] if given is not None and await self.has(*given, address) else None

    async def has(self, name: str, password: str, address: str) -> bool:
        """Whether these are the name and password of an account. `address` is where they come from.

        Raises:
            Unavailable: too many passwords are being checked.
        """
        if not self._open:
            return False
        account = self._open.get(name) or next(iter(self._open.values()))
        return await account.has(name, password, address)


def basic_of(authorization: str | None) -> tuple[str, str] | None:
    """Name and password of an Authorization header; None if it is none of HTTP Basic."""
    scheme, _, encoded = (authorization or "")[:LONGEST].strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None
