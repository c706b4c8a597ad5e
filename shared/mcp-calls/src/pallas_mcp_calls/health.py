"""Reads what `get_health` answers (interface contract, section 3)."""

from mcp_types import CallToolResult
from pydantic import BaseModel, ValidationError

from pallas_mcp_calls.answers import text_of
from pallas_mcp_calls.model import HealthReport, Status

NO_HEALTH = "its `get_health` did not answer with a health status"
_LARGEST = 64 * 1024
_LONGEST = 500


def health_of(result: CallToolResult) -> HealthReport:
    """The health in a result; an error if there is none in it."""
    if result.is_error:
        reason = line(text_of(result))
        return HealthReport("error", f"its `get_health` failed: {reason}" if reason else "its `get_health` failed")
    texts = [block.text for block in result.content if block.type == "text"]
    if len(texts) != 1 or len(texts[0]) > _LARGEST:
        return HealthReport("error", NO_HEALTH)
    try:
        answered = _Health.model_validate_json(texts[0])
    except ValidationError:
        return HealthReport("error", NO_HEALTH)
    if answered.status == "ok":
        return HealthReport("ok")
    said = line(answered.message) if isinstance(answered.message, str) else ""
    return HealthReport(answered.status, said or "no reason given")


class _Health(BaseModel):
    """The JSON object of the contract. A message that is no text is left out."""

    status: Status
    message: object = None


def line(text: str) -> str:
    """A text as one line that is not long."""
    words = " ".join(text[: 4 * _LONGEST].split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
