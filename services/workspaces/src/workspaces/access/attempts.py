"""Limits failed logins: an address may fail five times a minute.

Logins that are being checked count as failed, so that many at once get no further. Several of the same password are
one: a client with the right one may send requests at once.
"""

import hmac
import math
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pallas_credentials.accounts import network_of

MOST_FAILURES, WINDOW_SECONDS = 5, 60.0
ADDRESSES = 10_000
"""How many addresses are remembered. The one that failed longest ago is forgotten."""


class TooManyLogins(Exception):
    """The address has failed too often."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("too many failed logins")
        self.retry_after = max(1, math.ceil(retry_after))


@dataclass
class Attempt:
    """A login that is being checked. Whoever checks it sets `right`; None: that could not be found out."""

    right: bool | None = None


@dataclass
class _Address:
    failed: list[float] = field(default_factory=list[float])
    checking: Counter[bytes] = field(default_factory=Counter[bytes])


class Attempts:
    """The failed logins of this replica, by address; of IPv6 by network."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._addresses = OrderedDict[str, _Address]()

    @contextmanager
    def attempt(self, address: str, secret: str) -> Generator[Attempt]:
        """Count the login of the block if it is not right.

        Raises:
            TooManyLogins: the address has failed too often.
        """
        network, now = network_of(address), time.monotonic()
        found = self._addresses.setdefault(network, _Address())
        found.failed = [at for at in found.failed if now - at < WINDOW_SECONDS]
        digest = hmac.digest(self._key, secret.encode(errors="replace"), "sha256")
        checking = len(found.checking) - (digest in found.checking)
        if len(found.failed) + checking >= MOST_FAILURES:
            raise TooManyLogins(WINDOW_SECONDS - (now - found.failed[0]) if found.failed else 1.0)
        found.checking[digest] += 1
        attempt = Attempt()
        try:
            yield attempt
        finally:
            found.checking[digest] -= 1
            found.checking += Counter()  # without those that are 0
            self._settle(network, found, right=attempt.right)

    def _settle(self, network: str, found: _Address, *, right: bool | None) -> None:
        if right is False:
            found.failed.append(time.monotonic())
            self._addresses[network] = found
            self._addresses.move_to_end(network)
        elif right:
            found.failed.clear()
        if not found.failed and not found.checking:
            self._addresses.pop(network, None)
        while len(self._addresses) > ADDRESSES:
            self._addresses.popitem(last=False)
