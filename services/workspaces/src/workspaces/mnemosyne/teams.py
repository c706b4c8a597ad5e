"""The teams of Mnemosyne: `/mcp_server/api/teams/` (auth contract, section 7), as the account `daedalus-service`.

Redirects are not followed, since they would take the password elsewhere.
"""

import asyncio
import time

import httpx2
from pydantic import SecretStr

from workspaces.certificates import trusted
from workspaces.mnemosyne.reading import (
    ACCOUNT,
    LARGEST,
    PATH,
    Created,
    MnemosyneAway,
    NoSuchTeam,
    Rotated,
    Team,
    TeamGone,
    Workspaces,
    check_status,
    is_of_another_team,
    odd,
    read,
)

SECONDS = 10.0


def open_teams_client(password: SecretStr | None) -> httpx2.AsyncClient:
    """A client with the service's account."""
    auth = httpx2.BasicAuth(ACCOUNT, password.get_secret_value() if password is not None else "")
    limits = httpx2.Limits(max_connections=50, max_keepalive_connections=20, keepalive_expiry=2.0)
    return httpx2.AsyncClient(
        auth=auth, timeout=SECONDS, limits=limits, verify=trusted(), trust_env=False, follow_redirects=False
    )


class Teams:
    """The teams of the Mnemosyne at `base`. `correlation` goes along with each request as X-Request-ID.

    All raise `MnemosyneAway`, if trying again may help (without a request for as long as Mnemosyne wants none), and
    `MnemosyneRefused`; the latter is `NoSuchTeam` where a team is unknown, and `TeamGone` where it was deleted.
    """

    def __init__(self, http: httpx2.AsyncClient, base: str) -> None:
        self._http = http
        self._base = f"{base.rstrip('/')}{PATH}"
        self._quiet_until = 0.0

    async def post(self, team_id: str, name: str, *, correlation: str) -> str | None:
        """Create a team. Returns its JWT, or None if it existed already."""
        answer = await self._request("POST", "", correlation, {"id": team_id, "name": name})
        jwt = read(answer, Created).jwt
        return _own(team_id, jwt) if jwt else None

    async def get(self, team_id: str, *, correlation: str) -> Team | None:
        """A team, or None if there is none with this id."""
        try:
            return read(await self._request("GET", f"{team_id}/", correlation), Team)
        except NoSuchTeam:
            return None

    async def put_workspaces(self, team_id: str, workspace_ids: list[str], *, correlation: str) -> list[str]:
        """Replace the workspaces of a team. Returns those that it has now."""
        body = {"workspace_ids": workspace_ids}
        return read(await self._request("PUT", f"{team_id}/workspaces/", correlation, body), Workspaces).workspace_ids

    async def rename(self, team_id: str, name: str, *, correlation: str) -> None:
        """Rename a team. The contract does not have this: others than our Mnemosyne may refuse it."""
        await self._request("PUT", f"{team_id}/name/", correlation, {"name": name})

    async def rotate(self, team_id: str, *, correlation: str) -> str:
        """Replace the JWT of a team. Returns the new one."""
        answer = await self._request("POST", f"{team_id}/rotate/", correlation)
        return _own(team_id, read(answer, Rotated).jwt)

    async def delete(self, team_id: str, *, correlation: str) -> None:
        """Make a team inactive. It may be unknown or inactive already."""
        try:
            await self._request("DELETE", f"{team_id}/", correlation)
        except (NoSuchTeam, TeamGone):
            return

    async def _request(self, method: str, path: str, correlation: str, body: object = None) -> httpx2.Response:
        """Send a request and return its answer, which is a success."""
        headers = {"accept": "application/json", "x-request-id": correlation}
        if (wait := self._quiet_until - time.monotonic()) > 0:
            raise MnemosyneAway("Mnemosyne wants no requests for some seconds", sent=False, wait=wait)
        try:
            async with asyncio.timeout(SECONDS):
                answer = await self._exchange(method, f"{self._base}{path}", body, headers)
        except httpx2.ConnectError as error:
            raise MnemosyneAway("Mnemosyne cannot be reached", sent=False) from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise MnemosyneAway(f"Mnemosyne did not answer within {SECONDS:g} s") from error
        except httpx2.TransportError as error:
            raise MnemosyneAway("the connection to Mnemosyne was lost") from error
        except httpx2.DecodingError as error:
            raise MnemosyneAway("the answer of Mnemosyne cannot be read") from error
        try:
            check_status(answer, named=bool(path))
        except MnemosyneAway as error:
            self._quiet_until = time.monotonic() + error.wait
            raise
        return answer

    async def _exchange(self, method: str, url: str, body: object, headers: dict[str, str]) -> httpx2.Response:
        """The answer to a request; of one that is far too large only the beginning."""
        content = bytearray()
        async with self._http.stream(method, url, json=body, headers=headers) as answer:
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > LARGEST:
                    break
        kept = {name: answer.headers.get(name, "") for name in ("content-type", "retry-after")}
        return httpx2.Response(answer.status_code, headers=kept, content=bytes(content))


def _own(team_id: str, jwt: str) -> str:
    """The JWT, if it does not say that it is another team's."""
    if is_of_another_team(jwt, team_id):
        raise odd("the JWT of another team")
    return jwt
