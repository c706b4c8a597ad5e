"""The base of every message: frozen, and deaf to fields it does not know.

Ignoring unknown fields is what lets a newer publisher talk to an older reader. Additions are optional fields; anything
else is a new contract under the next version.
"""

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A frozen model that ignores fields it does not know. Its numbers are numbers: JSON has no others."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def utc_now() -> datetime:
    """The current time, aware and in UTC."""
    return datetime.now(UTC)
