"""The base of every message: it is frozen, and ignores fields that it does not know.

So an older reader can read what a newer publisher sends. Additions are optional fields; any other change is a new
contract under the next version.
"""

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A frozen model that ignores fields it does not know. Its numbers are numbers: JSON has no others."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def utc_now() -> datetime:
    """The current time, aware and in UTC."""
    return datetime.now(UTC)
