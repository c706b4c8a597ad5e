"""Fetches the document of a registry (interface contract, section 1), within limits of time, size and place."""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import httpx2
from pydantic_core import from_json

from pallas_contracts.errors import BadGateway, Rejected
from pallas_runtime.http.guard import Forbidden
from workspaces.origins import Origins, reached
from workspaces.registries.policy import Policy
from workspaces.registries.read import Listing, read_document
from workspaces.registries.urls import FIELD, document_url

SECONDS = 5.0
LARGEST = 2 * 1024 * 1024
REDIRECTS = 3
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "pallas-workspaces"}


class RegistryUnreachable(BadGateway):
    """A registry does not answer, or not with its document."""

    default_code = "registry_unreachable"


def open_client(policy: Policy) -> httpx2.AsyncClient:
    """A client for registries. It follows no redirect by itself."""
    return httpx2.AsyncClient(transport=policy.transport(), timeout=SECONDS, trust_env=False, follow_redirects=False)


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches documents with the client of `open_client`."""

    http: httpx2.AsyncClient
    policy: Policy
    origins: Origins = ()

    async def fetch(self, base: str) -> Listing:
        """What the registry at `base` offers.

        Raises:
            RegistryUnreachable: it does not answer in time, or not with a document.
            Rejected: its address is not allowed (`registry_forbidden`), or what it answers cannot be a document
                (`bad_registry`); both have `field`.
        """
        try:
            async with asyncio.timeout(SECONDS):
                body = await self._get(httpx2.URL(reached(document_url(base), self.origins)))
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise RegistryUnreachable(f"the registry did not answer within {SECONDS:g} s") from error
        except httpx2.TransportError as error:
            if _is_forbidden(error):
                raise _forbidden() from error
            raise RegistryUnreachable(f"the registry cannot be reached: {_reason(error)}") from error
        try:
            document: Any = from_json(body)
        except ValueError as error:
            raise _bad("the document is not JSON") from error
        return read_document(document, self.policy)

    async def _get(self, url: httpx2.URL) -> bytes:
        host = url.host
        for _ in range(REDIRECTS + 1):
            if not self.policy.allows_host(url.host):
                raise _forbidden()
            async with self.http.stream("GET", url, headers=_HEADERS) as answer:
                if not answer.has_redirect_location:
                    return await _read(answer)
                url = _redirected(url, answer.headers["location"], host)
        raise RegistryUnreachable(f"the registry redirects more than {REDIRECTS} times")


def _redirected(url: httpx2.URL, location: str, host: str) -> httpx2.URL:
    try:
        target = httpx2.URL(urljoin(str(url), location))
    except (httpx2.InvalidURL, ValueError) as error:
        raise RegistryUnreachable("the registry redirects to something that is not an address") from error
    if target.scheme not in ("http", "https") or target.host != host or target.userinfo:
        raise RegistryUnreachable("the registry redirects to another host; register the address it redirects to")
    return target


async def _read(answer: httpx2.Response) -> bytes:
    if answer.status_code != 200:
        raise RegistryUnreachable(f"the registry answered with status {answer.status_code}")
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise _bad("the answer is not application/json; is this the address of a registry?")
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise _bad("the answer is compressed although this was not asked for")
    body = await read_at_most(answer, LARGEST)
    if body is None:
        raise _bad(f"the document is larger than {LARGEST // 1024 // 1024} MiB")
    return body


async def read_at_most(answer: httpx2.Response, most: int) -> bytes | None:
    """The body of an answer; None if it has more than `most` bytes, of which no more are read."""
    declared, body = answer.headers.get("content-length", "0"), bytearray()
    if declared.isdigit() and int(declared) > most:
        return None
    async for part in answer.aiter_raw():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def _is_forbidden(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, Forbidden):
            return True
        error = error.__cause__ or error.__context__
    return False


def _reason(error: httpx2.TransportError) -> str:
    """What went wrong, without addresses or other details of the network."""
    if isinstance(error, httpx2.ConnectError):
        return "no connection"
    return "the connection was lost"


def _forbidden() -> Rejected:
    return Rejected(
        f"{FIELD}: the address of the registry is in a network that is not allowed",
        code="registry_forbidden",
        field=FIELD,
    )


def _bad(reason: str) -> Rejected:
    return Rejected(f"{FIELD}: {reason}", code="bad_registry", field=FIELD)
