"""The answers of models and tools as the journal has them: messages of pydantic-ai as JSON."""

import hashlib
import json
import logging
from collections.abc import Sequence
from functools import lru_cache

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import ModelResponse, ToolReturnPart
from pydantic_core import PydanticSerializationError

from pallas_executor.steps import Steps

log = logging.getLogger(__name__)

_RESPONSE = TypeAdapter(ModelResponse)
_RESULT = TypeAdapter(ToolReturnPart)


@lru_cache(maxsize=1000)
def basis_of(agent: str, instruction: str, model: str, servers: Sequence[str], agents: Sequence[str]) -> str:
    """A digest of what an agent is made of; `agents` are the digests of its sub-agents."""
    text = json.dumps([agent, instruction, model, servers, agents])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class AgentJournal:
    """The journal of one run of `agent`. Tool calls are named after the call of the model that asked for them."""

    def __init__(self, steps: Steps, agent: str, basis: str) -> None:
        self._steps = steps
        self._basis = f"{agent} {basis}"

    def response(self, call: str) -> ModelResponse | None:
        """What the model answered in an earlier attempt; None if it is to be called now.

        Raises:
            JournalUnusable: the agent has changed since, or the answer cannot be read.
        """
        return self._read(_RESPONSE, call, self._basis)

    async def add_response(self, call: str, response: ModelResponse) -> None:
        """Add what the model answered."""
        await self._add(_RESPONSE, call, self._basis, response)

    def result(self, call: str, tool: str) -> ToolReturnPart | None:
        """The result of a tool call of an earlier attempt; None if it is to be made now. Raises as `response` does."""
        return self._read(_RESULT, call, tool)

    async def add_result(self, call: str, result: ToolReturnPart) -> None:
        """Add the result of a tool call."""
        await self._add(_RESULT, call, result.tool_name, result)

    async def _add[T](self, adapter: TypeAdapter[T], call: str, basis: str, answer: T) -> None:
        try:
            text = adapter.dump_json(answer).decode()
        except PydanticSerializationError:  # half of a surrogate pair, for example
            log.warning("an answer is no JSON, so it cannot be kept for a later attempt", extra={"call": call})
            text = None
        await self._steps.record(call, basis, text)

    def _read[T](self, adapter: TypeAdapter[T], call: str, basis: str) -> T | None:
        answer = self._steps.answer(call, basis)
        if answer is None:
            return None
        try:
            return adapter.validate_json(answer)
        except ValidationError as error:
            raise self._steps.mismatch(f"the answer of call {call} cannot be read") from error
