"""The sender of a request, as a dependency of routes. It has been admitted."""

from typing import Annotated

from fastapi import Depends, Request

from workspaces.model import Who


def sender_of(request: Request) -> Who:
    """The sender of the request."""
    who: Who = request.state.who
    return who


type Sender = Annotated[Who, Depends(sender_of)]
