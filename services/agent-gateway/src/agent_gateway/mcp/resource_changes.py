"""Changes of an agent's resources, for those who subscribed to them at this gateway.

A change says only that a resource has to be read again, so any number of changes in a short time are one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager

GATHER_SECONDS = 0.05
"""Seconds for which the changes of a resource are gathered, such as those that several replicas announce."""

GAP_SECONDS = 0.5
"""Seconds between two notifications of changes of one resource."""


class ResourceChanges:
    """Calls `tell` with each URI that has changed and that somebody wants, at most twice a second."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._wanted = Counter[str]()
        self._changed: dict[str, bool] = {}
        """What changed or was told just now; False: it has not changed since it was told."""

    @contextmanager
    def wanting(self) -> Generator[Callable[[Collection[str]], None]]:
        """Want to hear of changes inside the block. It gets a function that says of which resources."""
        mine: frozenset[str] = frozenset()

        def want(uris: Collection[str]) -> None:
            nonlocal mine
            self._wanted.update(uris)
            self._wanted.subtract(mine)
            for uri in mine:
                if not self._wanted[uri]:
                    del self._wanted[uri]
            mine = frozenset(uris)

        try:
            yield want
        finally:
            want(())

    def changed(self, uri: str) -> None:
        """A resource has changed."""
        if uri in self._changed:
            self._changed[uri] = True
        elif uri in self._wanted:
            self._changed[uri] = True
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._due, uri)

    def missed(self) -> None:
        """Changes may have been missed: every resource may be another one."""
        for uri in tuple(self._wanted):
            self.changed(uri)

    def _due(self, uri: str) -> None:
        if self._changed.pop(uri):
            self._changed[uri] = False
            self._tell(uri)
            asyncio.get_running_loop().call_later(GAP_SECONDS, self._due, uri)
