"""Fields of requests, with their lengths and alphabets.

Names are one line of any text. Ids in paths have an alphabet that needs no encoding. A malformed id is not found where
it is looked up, and bad input where it is created.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from pallas_contracts.errors import NotFound, Rejected

MOST_IDS = 1000
"""Maximum number of ids in a list."""

LONGEST_ID = 64
LONGEST_NAME = 200
LONGEST_LIFE = timedelta(days=36525)

_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"
PLAIN = r"^[A-Za-z0-9_][A-Za-z0-9._:@+-]*$"


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


type Name = Annotated[
    str,
    StringConstraints(strict=True, min_length=1, max_length=LONGEST_NAME, pattern=_ONE_LINE),
    AfterValidator(_not_blank),
]
type WorkspaceId = Annotated[
    str,
    StringConstraints(strict=True, min_length=1, max_length=LONGEST_ID, pattern=_ONE_LINE),
    AfterValidator(_not_blank),
]
type PlainId = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=LONGEST_ID, pattern=PLAIN)]
type Uids = Annotated[list[PlainId], Field(max_length=MOST_IDS)]


type AnyText = Annotated[str, Path()]


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NewTeam(BaseModel):
    """A team to create. Unknown fields are ignored, since Daedalus may send more."""

    id: UUID
    name: Name


class NewWorkspaces(BaseModel):
    """The workspaces of a team."""

    workspace_ids: Annotated[list[WorkspaceId], Field(max_length=MOST_IDS)]


class NewUser(Body):
    """A user to create."""

    name: PlainId


class UserChange(Body):
    """What to change of a user."""

    active: Annotated[bool, Field(strict=True)]


class NewLibrary(Body):
    """A library to create. `owner` is a user."""

    uid: PlainId
    name: Name
    workspace_id: WorkspaceId | None = None
    owner: PlainId | None = None


class NewName(Body):
    """Another name."""

    name: Name


class NewWorkspace(Body):
    """Another workspace, or none."""

    workspace_id: WorkspaceId | None


def _in_the_future(value: datetime | None) -> datetime | None:
    if value is not None and not timedelta() < value - datetime.now(UTC) <= LONGEST_LIFE:
        raise ValueError("must be in the future, and at most a hundred years ahead")
    return value


class NewToken(Body):
    """A token to create."""

    user: PlainId
    name: Name
    allowed_libraries: Uids = Field(default_factory=list[str])
    expires_at: Annotated[AwareDatetime | None, AfterValidator(_in_the_future)] = None


class AllowedLibraries(Body):
    """The libraries that a token may read."""

    allowed_libraries: Uids


class NewKey(Body):
    """A signing key to create. `algorithm` defaults to the settings for team JWTs, to HS256 for per-turn tokens."""

    purpose: Literal["team", "turn"]
    algorithm: Literal["HS256", "EdDSA"] | None = None
    current: Annotated[bool, Field(strict=True)] = False


def team_id_of(team_id: AnyText) -> str:
    """The id in a path, as it is stored."""
    return _uuid(team_id, "team")


def token_id_of(token_id: AnyText) -> str:
    """The id in a path, as it is stored."""
    return _uuid(token_id, "token")


def user_of(user: AnyText) -> str:
    """The name in a path."""
    return _plain(user, "user")


def library_of(library: AnyText) -> str:
    """The uid in a path."""
    return _plain(library, "library")


def kid_of(kid: AnyText) -> str:
    """The id of a key in a path."""
    return _plain(kid, "key")


def optional_uuid(after: str) -> str:
    """The id after which a page begins; empty for the first page.

    Raises:
        Rejected: it is not a UUID.
    """
    try:
        return str(UUID(after)) if after else ""
    except ValueError:
        raise Rejected("after: must be the `next` of the previous page", field="after") from None


def _uuid(value: str, what: str) -> str:
    try:
        return str(UUID(value))
    except ValueError:
        raise _unknown(value, what) from None


def _plain(value: str, what: str) -> str:
    if len(value) > LONGEST_ID or not re.fullmatch(PLAIN, value):
        raise _unknown(value, what)
    return value


def _unknown(value: str, what: str) -> NotFound:
    return NotFound(f"there is no {what} {value[:LONGEST_ID]!r}", code=f"no_{what}")


type TeamId = Annotated[str, Depends(team_id_of)]
type TokenId = Annotated[str, Depends(token_id_of)]
type UserName = Annotated[str, Depends(user_of)]
type LibraryUid = Annotated[str, Depends(library_of)]
type Kid = Annotated[str, Depends(kid_of)]
type After = Annotated[str, Query(max_length=256, pattern=r"^[^\x00]*$", description="`next` of the previous page")]
type Limit = Annotated[int, Query(ge=1, le=1000)]
