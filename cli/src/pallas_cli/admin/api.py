"""The admin API as commands use it: what it refuses becomes lines for people, and names nothing secret."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from pallas_cli.refused import Refused

SECONDS = 30.0
PAGE = 1000
_CREATED = 201

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+-]*")
"""What names and ids are made of; nothing else can stand in a path, and nothing else is known."""

type Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdminApi:
    """Made by `admin_api`. Paths are given in parts."""

    http: httpx.Client

    def rows(self, *path: str, **narrowed: str | None) -> list[Row]:
        """All items of a list, over as many pages as it has."""
        query, found = {name: value for name, value in narrowed.items() if value is not None}, list[Row]()
        while True:
            page = self._ask("GET", path, query={**query, "limit": str(PAGE)}).json()
            found += page["items"]
            if page["next"] is None:
                return found
            query["after"] = page["next"]

    def get(self, *path: str) -> Any:
        """What stands there."""
        return self._ask("GET", path).json()

    def change(self, method: str, *path: str, body: Row | None = None) -> Row:
        """Make a change; its answer, which is empty where there is nothing to say."""
        answer = self._ask(method, path, body=body)
        return answer.json() if answer.content else {}

    def make(self, method: str, *path: str, body: Row | None = None) -> Row:
        """Make what may be there already; its answer, and whether it is `new`."""
        answer = self._ask(method, path, body=body)
        return {**answer.json(), "new": answer.status_code == _CREATED}

    def _ask(
        self, method: str, path: tuple[str, ...], *, query: dict[str, str] | None = None, body: Row | None = None
    ) -> httpx.Response:
        try:
            answer = self.http.request(method, _path(path), params=query, json=body)
        except httpx.HTTPError as error:
            raise _not_reached(str(self.http.base_url), error) from error
        if not answer.is_success:
            raise _refusal(answer)
        if answer.content and "json" not in answer.headers.get("content-type", ""):
            raise _not_ours(answer)
        return answer


@contextmanager
def admin_api(url: str, password: str) -> Generator[AdminApi]:
    """The API of the team-lifecycle at `url`.

    Raises:
        Refused: that is no address.
    """
    try:
        http = httpx.Client(base_url=f"{url.rstrip('/')}/admin/api/", auth=("admin", password), timeout=SECONDS)
    except httpx.InvalidURL as error:
        raise _not_reached(url, error) from error
    with http:
        yield AdminApi(http)


def _path(parts: tuple[str, ...]) -> str:
    """The parts as the API joins them: what is about teams ends with a slash."""
    for part in parts:
        if not _NAME.fullmatch(part):
            raise Refused(f"{part!r} cannot be a name or an id", code=1)
    return "/".join(parts) + ("/" if parts[0] == "teams" else "")


def _not_reached(where: str, error: Exception) -> Refused:
    where = where.removesuffix("/admin/api/")
    return Refused(
        f"team-lifecycle at {where} cannot be reached ({type(error).__name__}); is `pallas up` running? "
        "(--url says where else to look)",
        code=1,
    )


def _not_ours(answer: httpx.Response) -> Refused:
    return Refused(f"{answer.url.copy_with(raw_path=b'/')} answers, but is no team-lifecycle", code=1)


def _refusal(answer: httpx.Response) -> Refused:
    try:
        said = answer.json()
        sentence, code, faults = str(said["error"]), said.get("code"), said.get("faults")
    except (ValueError, KeyError, TypeError, AttributeError):
        return _not_ours(answer)
    match answer.status_code, code:
        case 401, _:
            return Refused("the password of the account `admin` is wrong (PALLAS_ADMIN_PASSWORD, --data)", code=1)
        case 404 | 405, "http":
            return _not_ours(answer)
        case _ if faults:
            return Refused(*(f"{fault['field']}: {fault['reason']}" for fault in faults), code=1)
        case _:
            return Refused(sentence, code=1)
