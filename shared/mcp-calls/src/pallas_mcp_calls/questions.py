"""Questions of agents, in both eras: elicitation requests and inputs that a result requires."""

import hashlib
import json
import logging
import re
from typing import Any

from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError

from pallas_mcp_calls.exchange import Exchange
from pallas_mcp_calls.model import Question

log = logging.getLogger(__name__)

CANCELLED = ElicitResult(action="cancel")
"""The answer when there is nobody to ask."""
MOST_QUESTIONS = 50
_LONGEST = 4_000

_CANNOT_ASK = re.compile(
    r"Cannot send 'elicitation/create': this transport context has no back-channel"
    r"|elicitation via server-initiated requests is unavailable on 2026-07-28"
)
"""What tools of the SDK and of FastMCP answer that ask by a request of their own, which revision 2026-07-28 has not."""


def cannot_ask(error: str) -> bool:
    """Whether a tool failed because it asks in a way that only revisions with a handshake have."""
    return _CANNOT_ASK.search(error) is not None


async def ask(exchange: Exchange, params: ElicitRequestParams) -> ElicitResult:
    """Ask whoever made the call."""
    if exchange.on_question is None or exchange.asked >= MOST_QUESTIONS:
        return CANCELLED
    exchange.asked += 1
    reply = await exchange.on_question(_question(exchange.asked, params))
    content: dict[str, Any] | None = None
    if reply.action == "accept" and isinstance(params, ElicitRequestFormParams):
        content = reply.content or {}
    try:
        return ElicitResult(action=reply.action, content=content)
    except ValidationError:
        log.warning("a reply to an agent's question has values that MCP does not allow")
        return CANCELLED


def _question(number: int, params: ElicitRequestParams) -> Question:
    asked = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "elicitation_id", "task"})
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
    url = params.url if isinstance(params, ElicitRequestURLParams) else None
    schema = asked.get("requestedSchema") if url is None else None
    return Question(f"{number}-{digest}", params.message[:_LONGEST], schema, url)
