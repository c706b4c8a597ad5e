"""Requests to the APIs of operators, which are sent again while a service cannot answer."""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from pallas_cli.refused import Refused

if TYPE_CHECKING:
    from httpx import AsyncClient, Response

SECONDS = 20.0
_TRIES = 4
_LATER = (502, 503)


def client(url: str, name: str, password: str) -> "AsyncClient":
    """A client of the service at `url`, as the account `name`."""
    import httpx

    return httpx.AsyncClient(base_url=url, auth=(name, password), timeout=SECONDS, trust_env=False)


async def ask(
    http: "AsyncClient", method: str, path: str, body: dict[str, Any] | None = None, *, also: Collection[int] = ()
) -> dict[str, Any]:
    """The answer of a request, which is repeated while it is 502 or 503. Statuses in `also` count as success.

    Raises:
        Refused: the request failed.
    """
    answer = await _repeated(http, method, path, body)
    if not (answer.is_success or answer.status_code in also):
        raise Refused(f"{method} {path} failed with status {answer.status_code}: {answer.text[:200]}")
    return answer.json() if answer.content else {}


async def _repeated(http: "AsyncClient", method: str, path: str, body: dict[str, Any] | None) -> "Response":
    answer = await http.request(method, path, json=body)
    for _ in range(_TRIES - 1):
        if answer.status_code not in _LATER:
            break
        await asyncio.sleep(float(answer.headers.get("retry-after", "1")))
        answer = await http.request(method, path, json=body)
    return answer
