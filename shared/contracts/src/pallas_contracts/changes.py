"""Changes of what a service keeps in its database, as events."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from pallas_contracts.message import Message


class Changed[Kind: str](Message):
    """A change, and its audit record. `number` counts all changes of the service without a gap."""

    number: int
    kind: Kind
    action: str
    id: str
    actor: str
    correlation: str
    data: dict[str, Any] = Field(default_factory=dict[str, Any])
    at: datetime


class WorkspaceChanged(Changed[Literal["workspace", "instance", "assignment"]]):
    """A workspace, a registered instance, or the attachment of an instance to a workspace has changed.

    `id` is that of the workspace or instance; of an attachment, `{workspace}/{instance}`. `data` has no secrets.
    """
