"""`agent.execute`: call a function of an agent. The call is a turn, as that of an MCP caller is."""

import asyncio
import json
import time
from dataclasses import dataclass

from agent_gateway.mcp.definitions import HEALTH_TOOL, get_health
from agent_gateway.mcp.observers import Platform
from agent_gateway.mcp.request import MAX_LENGTH
from agent_gateway.mcp.server import AgentServer
from agent_gateway.rpc.agents import CallableAgents, RpcCaller, UnknownAgent
from agent_gateway.rpc.answers import Answers, Execution, read_execution
from pallas_contracts.agents import JsonObject, Limits, ToolDefinition
from pallas_contracts.errors import NotFound
from pallas_contracts.turns import ClientContext, TurnRequested
from pallas_jsonrpc.messages import METHOD_NOT_FOUND, UNREACHABLE, RpcError, invalid_params
from pallas_jsonrpc.serving import Answer
from pallas_runtime.telemetry import of_turn
from pallas_turns.claims import TurnRef
from pallas_turns.keys import call_once, cancel_key
from pallas_turns.model import Call, Observer, Refusal, TurnEnd
from pallas_turns.submit import find_tool, make_request

_CLIENT = ClientContext(protocol_version="json-rpc")

_MOST_KNOWN = 50
"""How many names an error lists."""


@dataclass(frozen=True, slots=True)
class _Caller(Observer):
    """Waits for the answer until `limit`."""

    limit: asyncio.Timeout

    def caller_left(self) -> bool:
        return True

    def why_left(self) -> str:
        return "the time limit of the call has passed" if self.limit.expired() else Observer.why_left(self)


@dataclass(frozen=True, slots=True)
class Execute:
    """Calls functions for one caller."""

    platform: Platform
    agents: CallableAgents
    caller: RpcCaller

    async def __call__(self, params: JsonObject, place: int) -> Answer:
        """Call the function and wait for its answer. `place` is that of the request in its batch.

        Raises:
            RpcError: the parameters are not valid, the call is refused, or it failed.
        """
        asked = read_execution(params)
        answers = Answers(asked)
        server = self._find(asked, answers)
        tool, arguments = await self._check(server, asked, answers)
        if tool is HEALTH_TOOL:
            began = time.monotonic()
            health = await get_health(self.platform.bus, self.platform.healths, server.definition)
            return answers.succeed(json.loads(health), round((time.monotonic() - began) * 1000))
        key, task = self._key(asked, place), asked.meta.task_id
        call = Call(tool=tool.name, client=_CLIENT, principal=self.caller.principal, key=key, task=task)
        turn = make_request(self.platform.key, server.definition, tool, arguments, call)
        with of_turn(**TurnRef.of(turn).facts, conversation=turn.correlation, task=task):
            end = await self._follow(turn, server.definition.limits, asked, answers)
        if isinstance(end, Refusal):
            raise answers.refusal(end)
        return answers.end(end, tool, await server.misfits(tool.name, end))

    def _find(self, asked: Execution, answers: Answers) -> AgentServer:
        try:
            return self.agents.find(asked.agent_id)
        except UnknownAgent as error:
            raise _not_found(answers, error.reason, error.known) from None

    async def _check(
        self, server: AgentServer, asked: Execution, answers: Answers
    ) -> tuple[ToolDefinition, JsonObject]:
        try:
            if asked.meta.cancel:
                return find_tool(server.definition, asked.function), {}
            checked = await server.check(asked.function, asked.input)
        except NotFound:
            known = [tool.name for tool in server.definition.tools]
            raise _not_found(answers, "unknown function", known) from None
        if isinstance(checked, Refusal):
            self.platform.calls.metrics.call_refused(server.definition.team, server.definition.agent, checked)
            raise answers.refusal(checked)
        return checked

    def _key(self, asked: Execution, place: int) -> str | None:
        """The idempotency key; that of a signed request is made so that a repeated one joins the same turn."""
        if asked.meta.idempotency_key is not None:
            return asked.meta.idempotency_key
        if self.caller.key is None:
            if asked.meta.cancel:
                raise invalid_params("meta.cancel", "needs an idempotency key, of the turn to cancel")
            return f"signed:{self.caller.signed}:{place}" if self.caller.signed is not None else None
        if not 1 <= len(self.caller.key) <= MAX_LENGTH:
            raise invalid_params("Idempotency-Key", f"must be a text of 1 to {MAX_LENGTH} characters")
        return self.caller.key

    async def _follow(
        self, turn: TurnRequested, limits: Limits, asked: Execution, answers: Answers
    ) -> TurnEnd | Refusal:
        """Cancel the turn, or follow it to its end. At the time limit of the call its caller has left."""
        try:
            async with asyncio.timeout(asked.meta.timeout) as limit:
                if asked.meta.cancel:
                    return await cancel_key(self.platform.calls, turn)
                return await call_once(self.platform.calls, turn, limits, _Caller(limit))
        except TimeoutError:
            message = f"Timeout: the function did not answer within {asked.meta.timeout:g} s, as the call demands."
            facts: JsonObject = {"code": "turn_timeout", "retryable": turn.digest is not None}
            raise answers.error(UNREACHABLE, message, facts, turn_id=turn.turn_id) from None


def _not_found(answers: Answers, reason: str, known: list[str]) -> RpcError:
    facts: JsonObject = {"reason": reason, "known": known[:_MOST_KNOWN]}
    return answers.error(METHOD_NOT_FOUND, f"Method not found: {reason}", facts)
