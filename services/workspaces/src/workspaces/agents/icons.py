"""Icons of agents, fetched on behalf of browsers: those of registered agents only, small, and images for certain."""

import asyncio
import base64
import binascii
import time
from collections import OrderedDict
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import unquote_to_bytes

import httpx2
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import NotFound
from pallas_postgres.engine import reading
from workspaces.agents.images import image_type
from workspaces.registries.fetch import read_at_most
from workspaces.registries.policy import Policy
from workspaces.registries.urls import icon_hash, icon_url
from workspaces.tables import PallasInstance

LARGEST = 64 * 1024
SECONDS = 5.0
_KEPT = 500
_KEPT_SECONDS, _MISSING_SECONDS = 24 * 3600.0, 60.0
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Icon:
    """An image."""

    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class _Kept:
    icon: Icon | None
    until: float


class Icons:
    """Fetches icons and keeps them for a day, and for a minute that there is none. An asynchronous context manager."""

    def __init__(self, engine: AsyncEngine, policy: Policy) -> None:
        self._engine = engine
        self._policy = policy
        self._http = httpx2.AsyncClient(transport=policy.transport(), timeout=SECONDS, trust_env=False)
        self._kept = OrderedDict[str, _Kept]()
        self._fetching = dict[str, asyncio.Task[Icon | None]]()
        self._permits = asyncio.Semaphore(_AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._fetching.values():
            task.cancel()
        await self._http.aclose()

    async def get(self, name: str) -> Icon:
        """The icon whose address has this hash.

        Raises:
            NotFound: no registered agent has it, or there is no image at its address (`no_icon`).
        """
        kept = self._kept.get(name)
        if kept is None or kept.until < time.monotonic():
            icon = await self._fetch_once(name)
        else:
            icon = kept.icon
        if icon is None:
            raise NotFound("there is no such icon", code="no_icon")
        return icon

    async def _fetch_once(self, name: str) -> Icon | None:
        """Find and fetch an icon. Whoever wants it meanwhile waits for the same answer."""
        task = self._fetching.get(name)
        if task is None:
            task = self._fetching[name] = asyncio.create_task(self._fetch(name))
            task.add_done_callback(lambda _: self._fetching.pop(name, None))
        return await asyncio.shield(task)

    async def _fetch(self, name: str) -> Icon | None:
        url = await self._find(name)
        icon = await self._at(url) if url is not None else None
        self._kept[name] = _Kept(icon, time.monotonic() + (_KEPT_SECONDS if icon else _MISSING_SECONDS))
        self._kept.move_to_end(name)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return icon

    async def _find(self, name: str) -> str | None:
        """The address of an icon of a registered agent."""
        async with reading(self._engine) as session:
            rows = await session.execute(select(PallasInstance.registry_url, PallasInstance.agents))
            for base, agents in rows:
                for agent in agents:
                    url = icon_url(base, agent.get("icon"))
                    if url is not None and icon_hash(url) == name:
                        return url
        return None

    async def _at(self, url: str) -> Icon | None:
        """The icon at an address, if there is one."""
        try:
            async with self._permits, asyncio.timeout(SECONDS):
                content = _embedded(url) if url.startswith("data:") else await self._load(url)
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
            return None
        kind = image_type(content) if content is not None else None
        return Icon(content, kind) if content is not None and kind is not None else None

    async def _load(self, url: str) -> bytes | None:
        if not self._policy.allows_host(httpx2.URL(url).host):
            return None
        headers = {"accept": "image/*", "accept-encoding": "identity", "user-agent": "pallas-workspaces"}
        async with self._http.stream("GET", url, headers=headers) as answer:
            return await read_at_most(answer, LARGEST) if answer.status_code == 200 else None


def _embedded(url: str) -> bytes | None:
    """The content of a `data:` address."""
    head, comma, data = url.partition(",")
    if not comma or len(data) > 2 * LARGEST:
        return None
    try:
        content = unquote_to_bytes(data)
        if head.endswith(";base64"):
            content = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if len(content) <= LARGEST else None
