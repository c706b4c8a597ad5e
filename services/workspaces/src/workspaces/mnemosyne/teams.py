"""The teams of Mnemosyne: `/mcp_server/api/teams/` (auth contract, section 7), as the account `daedalus-service`.

Only what the contract says about an answer is relied on. Redirects are not followed, since they would take the password
elsewhere.
"""

import asyncio
import re
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol, cast

import httpx2
from pydantic import SecretStr
from pydantic_core import from_json

from workspaces.certificates import trusted
from workspaces.mnemosyne.errors import MnemosyneAway, MnemosyneRefused, NoSuchTeam, TeamGone

ACCOUNT = "daedalus-service"
PATH = "/mcp_server/api/teams/"
SECONDS = 10.0
REMEMBERED = 1000
LARGEST = 4 * 1024 * 1024
_JWT = re.compile(r"[A-Za-z0-9_.~+/=-]{1,8192}")
_RETRY = frozenset((408, 425, 429))


@dataclass(frozen=True, slots=True)
class Team:
    """A team as Mnemosyne shows it. `active_jti` is that of its current JWT, if it says so."""

    name: str | None
    active: bool
    active_jti: str | None
    workspace_ids: tuple[str, ...]


class Teams(Protocol):
    """The five requests. All raise `MnemosyneAway` and `MnemosyneRefused`; `correlation` goes along as X-Request-ID."""

    async def post(self, team_id: str, name: str, *, correlation: str) -> str | None:
        """Create a team. Returns its JWT, or None if it existed already."""
        ...

    async def get(self, team_id: str, *, correlation: str) -> Team | None:
        """A team, or None if there is none with this id."""
        ...

    async def put_workspaces(self, team_id: str, workspace_ids: list[str], *, correlation: str) -> tuple[str, ...]:
        """Replace the workspaces of a team. Returns those that it has now.

        Raises:
            NoSuchTeam: there is no such team.
            TeamGone: it was deleted.
        """
        ...

    async def rotate(self, team_id: str, *, correlation: str) -> str:
        """Replace the JWT of a team. Returns the new one.

        Raises:
            NoSuchTeam: there is no such team.
            TeamGone: it was deleted.
        """
        ...

    async def delete(self, team_id: str, *, correlation: str) -> None:
        """Make a team inactive. It may be unknown or inactive already."""
        ...


def open_teams_client(password: SecretStr | None) -> httpx2.AsyncClient:
    """A client with the service's account."""
    auth = httpx2.BasicAuth(ACCOUNT, password.get_secret_value() if password is not None else "")
    limits = httpx2.Limits(max_connections=50, max_keepalive_connections=20, keepalive_expiry=2.0)
    return httpx2.AsyncClient(
        auth=auth, timeout=SECONDS, limits=limits, verify=trusted(), trust_env=False, follow_redirects=False
    )


class HttpTeams(Teams):
    """The requests over HTTP, to the Mnemosyne at `base`."""

    def __init__(self, http: httpx2.AsyncClient, base: str) -> None:
        self._http = http
        self._base = f"{base.rstrip('/')}{PATH}"
        self._sent = deque[str](maxlen=REMEMBERED)

    def has_sent(self, correlation: str) -> bool:
        """Whether one of the last requests that change something had this correlation id."""
        return correlation in self._sent

    async def post(self, team_id: str, name: str, *, correlation: str) -> str | None:
        answer = await self._request("POST", "", correlation, {"id": team_id, "name": name})
        return _jwt(answer) if answer.get("jwt") else None

    async def get(self, team_id: str, *, correlation: str) -> Team | None:
        try:
            answer = await self._request("GET", f"{team_id}/", correlation)
        except NoSuchTeam:
            return None
        active, jti, name = answer.get("active"), answer.get("active_jti"), answer.get("name")
        if not isinstance(active, bool):
            raise _odd("a team without `active`")
        return Team(
            name=name if isinstance(name, str) else None,
            active=active,
            active_jti=jti if isinstance(jti, str) else None,
            workspace_ids=_workspace_ids(answer),
        )

    async def put_workspaces(self, team_id: str, workspace_ids: list[str], *, correlation: str) -> tuple[str, ...]:
        body = {"workspace_ids": workspace_ids}
        return _workspace_ids(await self._request("PUT", f"{team_id}/workspaces/", correlation, body))

    async def rotate(self, team_id: str, *, correlation: str) -> str:
        return _jwt(await self._request("POST", f"{team_id}/rotate/", correlation))

    async def delete(self, team_id: str, *, correlation: str) -> None:
        try:
            await self._request("DELETE", f"{team_id}/", correlation, empty=True)
        except (NoSuchTeam, TeamGone):
            return

    async def _request(
        self, method: str, path: str, correlation: str, body: object = None, *, empty: bool = False
    ) -> dict[str, Any]:
        """Send a request and return the JSON object of its answer, which may be `empty`."""
        headers = {"accept": "application/json", "x-request-id": correlation}
        if method != "GET":
            self._sent.append(correlation)
        try:
            async with asyncio.timeout(SECONDS):
                answer = await self._http.request(method, f"{self._base}{path}", json=body, headers=headers)
        except httpx2.ConnectError as error:
            raise MnemosyneAway("Mnemosyne cannot be reached", sent=False) from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise MnemosyneAway(f"Mnemosyne did not answer within {SECONDS:g} s") from error
        except httpx2.TransportError as error:
            raise MnemosyneAway("the connection to Mnemosyne was lost") from error
        except httpx2.DecodingError as error:
            raise MnemosyneAway("the answer of Mnemosyne cannot be read") from error
        _check_status(answer, named=bool(path))
        return {} if empty else _object(answer)


def _check_status(answer: httpx2.Response, *, named: bool) -> None:
    """Raise what the status means. `named`: the path names a team."""
    status = answer.status_code
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise MnemosyneRefused(f"Mnemosyne redirects (status {status}); PALLAS_TEAMS_URL must be its own address")
    if status in (401, 403):
        raise MnemosyneRefused(
            f"Mnemosyne refuses the account {ACCOUNT} (status {status}); check PALLAS_TEAMS_PASSWORD",
            code="bad_account",
        )
    if status == 404:
        if named:
            raise NoSuchTeam("Mnemosyne does not know the team (status 404)")
        raise MnemosyneRefused(f"there is no {PATH} at PALLAS_TEAMS_URL (status 404)")
    if status in (409, 410):
        raise TeamGone(f"the team was deleted in Mnemosyne (status {status})")
    if status >= 500 or status in _RETRY:
        page = " with a web page" if _is_page(answer) else ""
        raise MnemosyneAway(f"Mnemosyne failed{page} (status {status})")
    raise MnemosyneRefused(f"Mnemosyne refuses the request (status {status})")


def _object(answer: httpx2.Response) -> dict[str, Any]:
    if _is_page(answer):
        raise _odd("a web page instead of JSON")
    if len(answer.content) > LARGEST:
        raise _odd("far too much")
    try:
        value = from_json(answer.content)
    except ValueError as error:
        raise _odd("what is not JSON") from error
    if not isinstance(value, dict):
        raise _odd("what is not an object")
    return cast("dict[str, Any]", value)


def _is_page(answer: httpx2.Response) -> bool:
    return answer.headers.get("content-type", "").lower().startswith("text/html")


def _jwt(answer: dict[str, Any]) -> str:
    jwt = answer.get("jwt")
    if not isinstance(jwt, str) or not _JWT.fullmatch(jwt):
        raise _odd("something that is no JWT")
    return jwt


def _workspace_ids(answer: dict[str, Any]) -> tuple[str, ...]:
    found = answer.get("workspace_ids")
    if not isinstance(found, list) or not all(isinstance(one, str) for one in cast("list[Any]", found)):
        raise _odd("no list `workspace_ids`")
    return tuple(sorted(set(cast("list[str]", found))))


def _odd(what: str) -> MnemosyneAway:
    """What was asked may have been done, so it is tried again, as after a lost answer."""
    return MnemosyneAway(f"Mnemosyne answered {what}", code="mnemosyne_odd")
