"""The offline model: deterministic, without network or key; it follows the directives in the user's message.

It keeps no state: the number of responses since the last user prompt gives the next step. All turns share one instance.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tools import ToolDefinition

from agent_worker.llm.guide import guide, readable
from pallas_contracts.agents import JsonObject

_LINE = re.compile(r"^/(tool|sleep|say|history|images|fail|parallel)(?:[ \t]+(.*))?$")


@dataclass(frozen=True, slots=True)
class Say:
    """Add this text to the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait, as a slow model would."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """Answer with the history or the images of the call."""

    what: Literal["history", "images"]


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail the request to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class UseTool:
    """Call a tool; its result goes into the answer."""

    name: str
    arguments: JsonObject


type Action = Say | Sleep | Report | Fail


@dataclass(slots=True)
class Step:
    """The actions of one response, in order, and the tools that it then calls in parallel.

    It begins with the results of the step before; `readable`: as a person reads them.
    """

    actions: list[Action] = field(default_factory=list[Action])
    tools: list[UseTool] = field(default_factory=list[UseTool])
    readable: bool = False


def plan(message: str, tools: Sequence[ToolDefinition] = ()) -> list[Step]:
    """Return the steps of a message; the last one calls no tools. Lines without a directive are ignored.

    A message without any directive is taken in plain words (`guide`) where the agent has tools, and else answered with
    an echo of its first line.
    """
    lines = [found for line in message.splitlines() if (found := _LINE.match(line.strip()))]
    if not lines:
        return _plan_of_words(message, tools)
    steps = [Step()]
    parallel = False
    for line in lines:
        word, rest = line[1], (line[2] or "").strip()
        directive = None if word == "parallel" else _read(word, rest)
        if isinstance(directive, UseTool):
            steps[-1].tools.append(directive)
            if not parallel:
                steps.append(Step())
            continue
        if steps[-1].tools:
            steps.append(Step())
        parallel = directive is None
        if directive is not None:
            steps[-1].actions.append(directive)
    if steps[-1].tools:
        steps.append(Step())
    return steps


def _plan_of_words(message: str, tools: Sequence[ToolDefinition]) -> list[Step]:
    if not tools:
        first = next((line.strip() for line in message.splitlines() if line.strip()), "")
        return [Step([Say(f"Echo: {first}")])]
    guided = guide(message, tools)
    if guided.tool is None:
        return [Step([Say(guided.text)])]
    return [Step([Say(guided.text)], [UseTool(guided.tool, guided.arguments or {})]), Step(readable=True)]


def _read(word: str, rest: str) -> Action | UseTool:
    match word:
        case "tool":
            return _read_tool(rest)
        case "sleep":
            return _read_sleep(rest)
        case "history" | "images":
            return Report(word)
        case "fail":
            return Fail(rest or "as asked")
        case _:
            return Say(rest)


def _read_tool(rest: str) -> Action | UseTool:
    name, _, text = rest.partition(" ")
    try:
        arguments: object = json.loads(text) if text.strip() else {}
    except ValueError:
        arguments = None
    if not name or not isinstance(arguments, dict):
        return Say(f"/tool takes a name and a JSON object, not {rest!r}")
    return UseTool(name, cast("JsonObject", arguments))


def _read_sleep(rest: str) -> Action:
    try:
        return Sleep(max(0.0, float(rest)))
    except ValueError:
        return Say(f"/sleep takes a number of seconds, not {rest!r}")


NAME = "offline"
_CHARACTERS_PER_TOKEN = 4


def offline_model(context_window: int | None = None) -> FunctionModel:
    """Make the model. `context_window` is in tokens, taken as four characters each; None: no limit."""
    offline = _Offline(context_window)
    return FunctionModel(offline.answer, stream_function=offline.stream, model_name=NAME)


@dataclass(frozen=True, slots=True)
class _Offline:
    context_window: int | None

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Execute the next step of the plan: respond with its text and its tool calls."""
        self._check_window(messages)
        talk = _Talk.read(messages)
        steps = plan(talk.message, info.function_tools)
        step = steps[min(talk.answered, len(steps) - 1)]
        answer = [readable(each) for each in talk.results] if step.readable else list(talk.results)
        for action in step.actions:
            match action:
                case Say(text):
                    answer.append(text)
                case Sleep(seconds):
                    await asyncio.sleep(seconds)
                case Report(what):
                    answer.append(json.dumps(talk.history if what == "history" else talk.images))
                case Fail(text):
                    raise ModelAPIError(NAME, text)
        text = "\n".join(answer)
        if not text.strip() and not step.tools:
            text = "Done."
        parts: list[ModelResponsePart] = [TextPart(text)] if text else []
        return ModelResponse(parts=[*parts, *(_call(tool, info) for tool in step.tools)])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        """The same answer, piece by piece: a line at a time, then the tool calls."""
        for index, part in enumerate((await self.answer(messages, info)).parts):
            if isinstance(part, TextPart):
                for line in part.content.splitlines(keepends=True):
                    yield line
            elif isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    def _check_window(self, messages: Sequence[ModelMessage]) -> None:
        if self.context_window is None:
            return
        tokens = sum(len(text) for text in _texts(messages)) // _CHARACTERS_PER_TOKEN
        if tokens > self.context_window:
            raise ModelContextWindowExceededError(
                NAME, f"about {tokens} tokens do not fit a context window of {self.context_window}"
            )


@dataclass(frozen=True, slots=True)
class _Talk:
    """The conversation as the model sees it: prompt, history, and the responses so far."""

    message: str
    answered: int
    results: list[str]
    history: list[dict[str, str]]
    images: list[dict[str, object]]

    @classmethod
    def read(cls, messages: Sequence[ModelMessage]) -> "_Talk":
        parts = [part for message in messages for part in message.parts]
        asked = max(index for index, part in enumerate(parts) if isinstance(part, UserPromptPart))
        prompt = parts[asked]
        seeded = [row for part in parts[:asked] if (row := _row(part))]
        # Not by rows: a caller may send several rows of one role in sequence.
        after = _messages_after(messages, prompt)
        images = [*_images([prompt], "turn"), *_images(parts[:asked], "history")]
        last = messages[-1].parts if after else ()
        results = [_result(part) for part in last if isinstance(part, ToolReturnPart)]
        return cls(_text(prompt), after, results, seeded, images)


def _messages_after(messages: Sequence[ModelMessage], prompt: object) -> int:
    """How many responses follow the request that holds `prompt`."""
    at = next(index for index, message in enumerate(messages) if any(part is prompt for part in message.parts))
    return sum(isinstance(message, ModelResponse) for message in messages[at + 1 :])


def _row(part: object) -> dict[str, str] | None:
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": _text(part)}
    return {"role": "assistant", "content": part.content} if isinstance(part, TextPart) else None


def _text(part: object) -> str:
    if not isinstance(part, UserPromptPart):
        return ""
    if isinstance(part.content, str):
        return part.content
    return "".join(piece for piece in part.content if isinstance(piece, str))


def _images(parts: Sequence[object], where: str) -> Iterator[dict[str, object]]:
    for part in parts:
        pieces = [part.content] if isinstance(part, FilePart) else []
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
            pieces = [piece for piece in part.content if isinstance(piece, BinaryContent)]
        for piece in pieces:
            yield {"mime_type": piece.media_type, "bytes": len(piece.data), "of": where}


def _result(part: ToolReturnPart) -> str:
    text = part.content if isinstance(part.content, str) else part.model_response_str()
    return text if part.outcome == "success" else f"{part.tool_name.replace('__', '/', 1)} failed: {text}"


def _texts(messages: Sequence[ModelMessage]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                yield _text(part)
            elif isinstance(part, TextPart):
                yield part.content
            elif isinstance(part, ToolReturnPart):
                yield part.model_response_str()


def _call(tool: UseTool, info: AgentInfo) -> ToolCallPart:
    names = [known.name for known in info.function_tools]
    return ToolCallPart(_resolve(tool.name, names), tool.arguments)


def _resolve(name: str, known: Sequence[str]) -> str:
    """Resolve `server/tool`, `server__tool`, or the unique bare name of a tool or sub-agent."""
    full = name.replace("/", "__", 1)
    if full in known:
        return full
    bare = [candidate for candidate in known if candidate.partition("__")[2] == name]
    return bare[0] if len(bare) == 1 else full
