"""A client of the REST APIs of team-lifecycle and the console: one account and one form of errors.

Errors become readable lines, without secrets. Nothing is asked twice: whether a change was made may not be known.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from pallas_cli.options import WHOLE, Page, say_more
from pallas_cli.plain_text import plain_line
from pallas_cli.refused import NotReachable, Refused, not_reached, not_there

SECONDS = 30.0
PAGE = 1000
_CREATED = 201

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+-]*")
"""Characters of names and ids. Anything else could change the path of a request."""

type Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Api:
    """The API of the `service` at `url`, made by `api_at`. Paths are given as segments."""

    http: httpx.Client
    url: str
    service: str

    def rows(self, *path: str, page: Page = WHOLE, **filters: str | None) -> list[Row]:
        """The items of a list, from all its pages that `page` wants."""
        query, found = {name: value for name, value in filters.items() if value is not None}, list[Row]()
        after = page.after
        while True:
            most = PAGE if page.limit is None else min(PAGE, page.limit - len(found))
            part = self._ask("GET", path, query={**query, "limit": str(most), **({"after": after} if after else {})})
            found += part.json()["items"]
            after = part.json()["next"]
            if after is None:
                return found
            if page.limit == len(found):
                say_more(after)
                return found

    def row(self, path: str, key: str, value: str, *, what: str) -> Row:
        """The item of a list whose `key` has this value.

        Raises:
            Refused: there is none.
        """
        rows = {row[key]: row for row in self.rows(path)}
        if value not in rows:
            raise not_there(what, value, rows)
        return rows[value]

    def get(self, *path: str) -> Any:
        """The JSON document at `path`."""
        return self._ask("GET", path).json()

    def change(self, method: str, *path: str, body: Row | None = None) -> Row:
        """Make a change; returns its answer, `{}` if the answer is empty."""
        answer = self._ask(method, path, body=body)
        return answer.json() if answer.content else {}

    def make(self, method: str, *path: str, body: Row | None = None) -> Row:
        """Create something unless it exists; returns its answer, with `new` true if it was created."""
        answer = self._ask(method, path, body=body)
        return {**answer.json(), "new": answer.status_code == _CREATED}

    def _ask(
        self, method: str, path: tuple[str, ...], *, query: dict[str, str] | None = None, body: Row | None = None
    ) -> httpx.Response:
        try:
            answer = self.http.request(method, _path(path), params=query, json=body)
        except httpx.HTTPError as error:
            raise _not_reached(self.service, self.url, error) from error
        if not answer.is_success:
            raise _refusal(self.service, answer)
        if answer.content and "json" not in answer.headers.get("content-type", ""):
            raise _not_ours(self.service, answer)
        return answer


@contextmanager
def api_at(url: str, password: str, *, service: str = "team-lifecycle", root: str = "admin/api") -> Generator[Api]:
    """The API of the `service` at `url`, below the path `root`.

    Raises:
        Refused: `url` is no valid address.
    """
    try:
        # Loading the certificates takes longer than most requests, and plain HTTP needs none.
        verify = not url.startswith("http://")
        base = f"{url.rstrip('/')}/{root}/"
        http = httpx.Client(base_url=base, auth=("admin", password), timeout=SECONDS, verify=verify)
    except httpx.InvalidURL as error:
        raise _not_reached(service, url, error) from error
    with http:
        yield Api(http, url.rstrip("/"), service)


MOST_NAMED = 20
"""How many names an error lists."""


def find_row(rows: Sequence[Row], given: str, what: str) -> Row:
    """By the id, else by the name; upper and lower case count only where several names differ in nothing else.

    Raises:
        Refused: there is none, or several have this name.
    """
    folded = given.casefold()
    found = (
        [row for row in rows if row["id"] == given]
        or [row for row in rows if row["name"] == given]
        or [row for row in rows if folded in (row["id"].casefold(), row["name"].casefold())]
    )
    if not found:
        raise Refused(f"no {what} has the id or name {plain_line(given)!r}{_those_there(rows)}", word="not_found")
    if len(found) > 1:
        ids = ", ".join(row["id"] for row in found)
        raise Refused(f"several {what}s have the name {plain_line(given)!r}: {ids}")
    return found[0]


def _those_there(rows: Sequence[Row]) -> str:
    names = sorted((plain_line(row["name"]) for row in rows), key=str.casefold)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"; there are: {', '.join(names[:MOST_NAMED])}{more}" if names else ""


def _path(parts: tuple[str, ...]) -> str:
    """The path of these segments. Paths of teams end with a slash."""
    for part in parts:
        if not _NAME.fullmatch(part):
            raise Refused(f"{part!r} is not a valid name or id")
    return "/".join(parts) + ("/" if parts[0] == "teams" else "")


def _not_reached(service: str, url: str, error: Exception) -> NotReachable:
    return not_reached(f"{service} at {url}", error)


def _not_ours(service: str, answer: httpx.Response) -> Refused:
    return Refused(f"{answer.url.copy_with(raw_path=b'/')} answers, but it is not {service}")


def _refusal(service: str, answer: httpx.Response) -> Refused:
    try:
        body = answer.json()
        sentence, code, faults = str(body["error"]), body.get("code"), body.get("faults")
    except (ValueError, KeyError, TypeError, AttributeError):
        return _not_ours(service, answer)
    match answer.status_code, code:
        case 401, _:
            return Refused("the password of the account `admin` is wrong (PALLAS_ADMIN_PASSWORD, --data)")
        case 404 | 405, "http":
            return _not_ours(service, answer)
        case _ if faults:
            return Refused(*(f"{fault['field']}: {fault['reason']}" for fault in faults))
        case _:
            return Refused(sentence)
