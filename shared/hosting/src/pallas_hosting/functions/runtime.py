"""`FunctionRuntime` executes turns of an agent written in Python. An exception of a function is a tool error.

The text of the exception may hold secrets, so it is logged with the turn's id and never sent to the caller.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pallas_contracts.agents import AgentRead, JsonObject
from pallas_contracts.catalog import READ_AGENT
from pallas_contracts.errors import NotFound, PallasError, Rejected, Superseded, Unavailable
from pallas_contracts.turns import InputRequired, Result
from pallas_hosting.functions.agent import Answer, FunctionAgent, Resource, Tool
from pallas_hosting.functions.context import CallContext, ProtocolFault, ReadContext
from pallas_hosting.functions.durable import DurableSteps, NothingOutside, Outside
from pallas_turns.events import Emitter
from pallas_turns.runtime import Completed, Failed, JournalUnusable, NeedsInput, Outcome, Steps, Turn

log = logging.getLogger(__name__)

_MOST_COMPLETIONS = 100


@dataclass(frozen=True, slots=True)
class FunctionRuntime:
    """A function agent and its name in the team.

    `outside` opens what a turn can call. `safe`: its steps may be made again. `read_seconds` is the timeout of reads.
    """

    name: str
    agent: FunctionAgent
    outside: Callable[[Steps, Emitter], Outside] = NothingOutside
    safe: bool = False
    read_seconds: float = READ_AGENT.timeout

    async def run_turn(self, turn: Turn, emit: Emitter) -> Outcome:
        """Execute one attempt (see `AgentRuntime`)."""
        if turn.model is not None:
            return Failed("unknown_model", f"agent {self.name!r} has no model that another could stand in for")
        tool = self.agent.tools.get(turn.tool)
        if tool is None:
            return Failed("invalid_arguments", f"agent {self.name!r} has no tool {turn.tool!r}")
        steps = Steps(turn, emit)
        durable = DurableSteps(turn.agent, steps, emit, self.outside(steps, emit), safe=self.safe)
        try:
            outcome = await self._call(tool, CallContext(turn, emit, durable))
            steps.check_usable()
            if not isinstance(outcome, Failed):
                durable.end()
        except JournalUnusable as error:
            return _cannot_go_on(error)
        return outcome

    async def _call(self, tool: Tool, ctx: CallContext) -> Outcome:
        turn, limit = ctx.turn, asyncio.timeout(ctx.turn.remaining)
        try:
            async with limit:
                return _outcome(await tool.call(ctx, turn.arguments))
        except ProtocolFault as fault:
            return Failed("invalid_arguments", fault.message, protocol_code=fault.code, data=fault.data)
        except (Superseded, JournalUnusable):
            raise
        except PallasError as error:
            return Completed(_tool_error(error.message))
        except (Exception, SystemExit) as error:
            if isinstance(error, TimeoutError) and limit.expired():
                return Failed("turn_timeout", f"tool {turn.tool!r} exceeded the time limit of the turn")
            log.exception("function crashed", extra={"tool": turn.tool})
            return Completed(_tool_error(f"tool {turn.tool!r} failed; the log has the reason"))

    async def read(self, question: AgentRead) -> JsonObject:
        """Answer a prompt, resource or completion request with the MCP result.

        Raises:
            NotFound: there is no such prompt or resource.
            Rejected: the function refused (`ProtocolFault`); `facts` has `protocol_code` and `data`.
            Unavailable: it took longer than `read_seconds`.
        """
        ctx = ReadContext(question.team, question.agent, question.params, question.principal)
        limit = asyncio.timeout(self.read_seconds)
        try:
            async with limit:
                match question.method:
                    case "prompts/get":
                        return await self._get_prompt(ctx)
                    case "resources/read":
                        return await self._read_resource(ctx)
                    case "completion/complete":
                        return await self._complete(ctx)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Unavailable(f"{question.method} of agent {self.name!r} took too long", code="too_slow") from error
        except ProtocolFault as fault:
            raise Rejected(fault.message, code="protocol_fault", protocol_code=fault.code, data=fault.data) from fault

    async def _get_prompt(self, ctx: ReadContext) -> JsonObject:
        name = str(ctx.params.get("name"))
        prompt = self.agent.prompts.get(name)
        if prompt is None:
            raise NotFound(f"agent {self.name!r} has no prompt {name!r}")
        arguments = {key: str(value) for key, value in _object(ctx.params.get("arguments")).items()}
        missing = [
            it["name"] for it in prompt.definition.arguments if it.get("required") and it["name"] not in arguments
        ]
        if missing:
            raise ProtocolFault(-32602, f"prompt {name!r} needs the argument {missing[0]!r}")
        answer = await prompt.get(ctx, arguments)
        if isinstance(answer, Mapping):
            return dict(answer)
        messages: Sequence[JsonObject] = answer if not isinstance(answer, str) else [_user_message(answer)]
        described = {"description": prompt.definition.description} if prompt.definition.description else {}
        return {**described, "messages": list(messages)}

    async def _read_resource(self, ctx: ReadContext) -> JsonObject:
        uri = str(ctx.params.get("uri"))
        resource, values = self._match(uri)
        content = await resource.read(ctx, values)
        if isinstance(content, Mapping):
            return dict(content)
        mime_type = resource.definition.mime_type
        about: JsonObject = {"uri": uri} | ({"mimeType": mime_type} if mime_type else {})
        if isinstance(content, bytes):
            return {"contents": [about | {"blob": base64.b64encode(content).decode()}]}
        return {"contents": [about | {"text": content}]}

    def _match(self, uri: str) -> tuple[Resource, dict[str, str]]:
        exact = self.agent.resources.get(uri)
        if exact is not None and not exact.definition.template:
            return exact, {}
        for resource in self.agent.resources.values():
            values = resource.template.match(uri)
            if values is not None:
                return resource, values
        raise NotFound(f"agent {self.name!r} has no resource {uri!r}")

    async def _complete(self, ctx: ReadContext) -> JsonObject:
        reference, argument = _object(ctx.params.get("ref")), _object(ctx.params.get("argument"))
        completer = self.agent.completers.get(str(reference.get("name") or reference.get("uri")))
        found: Sequence[str] = ()
        if completer is not None:
            found = await completer.complete(ctx, str(argument.get("name")), str(argument.get("value", "")))
        values = list(found[:_MOST_COMPLETIONS])
        return {"completion": {"values": values, "total": len(found), "hasMore": len(found) > len(values)}}


def _cannot_go_on(error: JournalUnusable) -> Failed:
    log.warning("the journal cannot be used", extra={"reason": error.reason})
    return Failed(
        "worker_lost",
        "The turn cannot go on where it stopped, because its agent has changed meanwhile: "
        f"{error.reason}. Check before you retry.",
    )


def _outcome(answer: Answer) -> Outcome:
    match answer:
        case str():
            return Completed(Result(content=({"type": "text", "text": answer},)))
        case Result():
            return Completed(answer)
        case InputRequired():
            return NeedsInput(answer)
        case _:
            return answer


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _tool_error(text: str) -> Result:
    return Result(content=({"type": "text", "text": text},), is_error=True)


def _user_message(text: str) -> JsonObject:
    return {"role": "user", "content": {"type": "text", "text": text}}
