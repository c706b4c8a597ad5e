"""The answers of models and tools as the journal has them: messages and results of fast-agent as JSON."""

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any

from fast_agent.types import PromptMessageExtended
from mcp_types import CallToolResult
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from pallas_turns.runtime import Steps

log = logging.getLogger(__name__)

_ASKED = {"role", "content", "tool_calls", "tool_results"}


def basis_of(agent: str, made_of: str, model: str, messages: Sequence[PromptMessageExtended]) -> str:
    """What is asked of a model: by which agent, of what that is made, and the last message.

    The messages before it are not compared, because no attempt has others: they are the caller's history, which is a
    part of the turn's request, answers that the journal has, and the messages of a card, which the agent is made of.
    """
    last = messages[-1].model_dump_json(include=_ASKED) if messages else ""
    return f"{agent} {_digest(made_of, model, last)}"


def made_of(data: Any) -> str:
    """A digest of what an agent of a project is made of. A turn does not go on from the journal of another one."""
    config = data["config"]
    members = [data.get(key) for key in ("child_agents", "sequence", "fan_out", "fan_in", "generator", "evaluator")]
    messages = [path.read_bytes() for path in data.get("message_files") or () if path.is_file()]
    return _digest(data["type"], config.name, config.instruction, config.model, config.servers, members, messages)


class AgentJournal:
    """The journal of an attempt."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def message(self, call: str, basis: str) -> PromptMessageExtended | None:
        """What a model answered in an earlier attempt; None if it is to be called now.

        Raises:
            JournalUnusable: something else was asked there, or the answer cannot be read.
        """
        return self._read(PromptMessageExtended, call, basis)

    def result(self, call: str, tool: str) -> CallToolResult | None:
        """The result of a tool in an earlier attempt; None if it is to be called now. Raises as `message` does."""
        return self._read(CallToolResult, call, tool)

    async def add(self, call: str, basis: str, answer: BaseModel) -> None:
        """Add an answer."""
        try:
            text = answer.model_dump_json(by_alias=True, exclude_none=True)
        except PydanticSerializationError:  # half of a surrogate pair, for example
            log.warning("an answer is no JSON, so it cannot be kept for a later attempt", extra={"call": call})
            text = None
        await self._steps.record(call, basis, text)

    def _read[T: BaseModel](self, kind: type[T], call: str, basis: str) -> T | None:
        answer = self._steps.answer(call, basis)
        if answer is None:
            return None
        try:
            return kind.model_validate_json(answer)
        except ValidationError as error:
            raise self._steps.mismatch(f"the answer of call {call} cannot be read") from error


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]
