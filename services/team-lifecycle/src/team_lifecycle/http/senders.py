"""The sender of a request, as a dependency of routes. `admit` has identified it."""

import re
from typing import Annotated

from fastapi import Depends, Header, Request

from pallas_contracts.errors import Rejected
from team_lifecycle.handlers.roles import check_admin
from team_lifecycle.http.fields import LONGEST_ID, PLAIN
from team_lifecycle.model import Who


def sender_of(request: Request) -> Who:
    """The sender of the request."""
    who: Who = request.state.who
    return who


def acting_of(
    request: Request,
    acts_for: Annotated[
        str | None, Header(alias="X-Pallas-User", description="act for this user, with the rights of the user")
    ] = None,
) -> Who:
    """The sender, who may act for a user.

    Raises:
        Rejected: the header is not a valid user name.
    """
    who: Who = request.state.who
    if acts_for is None:
        return who
    if len(acts_for) > LONGEST_ID or not re.fullmatch(PLAIN, acts_for):
        raise Rejected("X-Pallas-User: must be a valid user name", field="X-Pallas-User")
    return Who(who.account, who.correlation, acts_for)


def require_admin(who: Annotated[Who, Depends(acting_of)]) -> None:
    """Refuse requests that act for a user.

    Raises:
        Denied: the request acts for a user.
    """
    check_admin(who)


type Sender = Annotated[Who, Depends(sender_of)]
type Acting = Annotated[Who, Depends(acting_of)]
"""The sender, or the user for whom it acts."""
