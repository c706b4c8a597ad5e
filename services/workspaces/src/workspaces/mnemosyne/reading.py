"""Reads the answers of Mnemosyne (auth contract, section 7). Only what the contract says about them is relied on.

No error has anything of an answer's body.
"""

import base64
from typing import Annotated, Literal

import httpx2
from pydantic import BaseModel, Field, ValidationError

from pallas_contracts.errors import BadGateway, Unavailable

ACCOUNT = "daedalus-service"
PATH = "/mcp_server/api/teams/"
LARGEST = 4 * 1024 * 1024
LONGEST_WAIT = 60.0
_RETRY = frozenset((408, 425, 429))


class MnemosyneAway(Unavailable):
    """Mnemosyne cannot be reached or has failed; a retry may succeed.

    Whether it did what was asked is unknown, unless the request was not `sent`. It wants no request for the next
    `wait` seconds.
    """

    default_code = "mnemosyne_away"

    def __init__(self, message: str, *, code: str | None = None, sent: bool = True, wait: float = 0.0) -> None:
        super().__init__(message, code=code)
        self.sent = sent
        self.wait = wait


class MnemosyneRefused(BadGateway):
    """Mnemosyne refuses the request, and would refuse it again."""

    default_code = "mnemosyne_refused"


class NoSuchTeam(MnemosyneRefused):
    """Mnemosyne does not know the team."""

    default_code = "no_team"


class TeamGone(MnemosyneRefused):
    """The team was deleted in Mnemosyne, which cannot be undone (auth contract, section 13.2)."""

    default_code = "team_deleted"


type Jwt = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.~+/=-]{1,8192}$")]


type Stored = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""A text as Postgres can store it."""


class Created(BaseModel):
    """The answer to POST. It has no JWT if the team existed."""

    jwt: Jwt | Literal[""] | None = None


class Rotated(BaseModel):
    """The answer to a rotation."""

    jwt: Jwt


class Workspaces(BaseModel):
    """The workspaces of a team."""

    workspace_ids: list[Stored]


class Team(BaseModel):
    """A team as Mnemosyne shows it. `active_jti` is that of its current JWT, if it says so."""

    name: Stored | None = None
    active: bool
    active_jti: str | None = None
    workspace_ids: list[Stored]


def read[Answer: BaseModel](answer: httpx2.Response, shape: type[Answer]) -> Answer:
    """The body of an answer.

    Raises:
        MnemosyneAway: it is something else (`mnemosyne_odd`). What was asked may have been done, so it is tried again.
    """
    if is_page(answer):
        raise odd("a web page instead of JSON")
    if len(answer.content) > LARGEST:
        raise odd("far too much")
    try:
        return shape.model_validate_json(answer.content)
    except ValidationError as error:
        field = next(iter(error.errors()[0]["loc"]), "")
        raise odd(f"something else: `{field}` is not as agreed" if field else "what is not a JSON object") from None


def check_status(answer: httpx2.Response, *, named: bool) -> None:
    """Raise what the status means, unless it is a success. `named`: the path names a team."""
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
        page = " with a web page" if is_page(answer) else ""
        raise MnemosyneAway(f"Mnemosyne failed{page} (status {status})", wait=_wanted_wait(answer))
    raise MnemosyneRefused(f"Mnemosyne refuses the request (status {status})")


def _wanted_wait(answer: httpx2.Response) -> float:
    """The seconds of `Retry-After`, at most `LONGEST_WAIT`."""
    wanted = answer.headers.get("retry-after", "")
    return min(LONGEST_WAIT, float(wanted)) if wanted.isascii() and wanted.isdigit() else 0.0


def is_page(answer: httpx2.Response) -> bool:
    """Whether an answer is HTML."""
    return answer.headers.get("content-type", "").lower().startswith("text/html")


def odd(what: str) -> MnemosyneAway:
    """An answer that is not as agreed."""
    return MnemosyneAway(f"Mnemosyne answered {what}", code="mnemosyne_odd")


def jti_of(jwt: str) -> str | None:
    """The `jti` of a JWT (auth contract, section 5.2), None if it cannot be read. Only Mnemosyne can check a JWT."""
    return _claims_of(jwt).jti


def is_of_another_team(jwt: str, team_id: str) -> bool:
    """Whether the `sub` of a JWT names another team. If it cannot be read, it does not."""
    return _claims_of(jwt).sub not in (None, f"team:{team_id}")


class _Claims(BaseModel):
    jti: str | None = None
    sub: str | None = None


def _claims_of(jwt: str) -> _Claims:
    parts = jwt.split(".")
    if len(parts) != 3:
        return _Claims()
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return _Claims.model_validate_json(payload)
    except ValueError:
        return _Claims()
