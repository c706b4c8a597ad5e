"""Reads the answers of Mnemosyne (auth contract, section 7). Only what the contract says about them is relied on."""

from typing import Annotated, Literal

import httpx2
from pydantic import BaseModel, Field, ValidationError

from workspaces.mnemosyne.errors import MnemosyneAway, MnemosyneRefused, NoSuchTeam, TeamGone

ACCOUNT = "daedalus-service"
PATH = "/mcp_server/api/teams/"
LARGEST = 4 * 1024 * 1024
_RETRY = frozenset((408, 425, 429))

type Jwt = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.~+/=-]{1,8192}$")]


class Created(BaseModel):
    """The answer to POST. It has no JWT if the team existed."""

    jwt: Jwt | Literal[""] | None = None


class Rotated(BaseModel):
    """The answer to a rotation."""

    jwt: Jwt


class Workspaces(BaseModel):
    """The workspaces of a team."""

    workspace_ids: list[str]


class Team(BaseModel):
    """A team as Mnemosyne shows it. `active_jti` is that of its current JWT, if it says so."""

    name: str | None = None
    active: bool
    active_jti: str | None = None
    workspace_ids: list[str]


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
        raise MnemosyneAway(f"Mnemosyne failed{page} (status {status})")
    raise MnemosyneRefused(f"Mnemosyne refuses the request (status {status})")


def is_page(answer: httpx2.Response) -> bool:
    """Whether an answer is HTML."""
    return answer.headers.get("content-type", "").lower().startswith("text/html")


def odd(what: str) -> MnemosyneAway:
    """An answer that is not as agreed."""
    return MnemosyneAway(f"Mnemosyne answered {what}", code="mnemosyne_odd")
