"""Tools that say something, wait to be told, have an effect, or fail. They wait for files, which anybody can make."""

import asyncio
from contextlib import suppress
from pathlib import Path

from pallas_contracts.turns import InputRequired, TextDelta
from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject, ReadContext
from pallas_hosting.functions.agent import Answer

agent = FunctionAgent()

_ANY: JsonObject = {"type": "object", "properties": {"file": {"type": "string"}, "text": {"type": "string"}}}


@agent.tool("say", "Say a text", input_schema={**_ANY, "additionalProperties": False})
async def say(ctx: CallContext, arguments: JsonObject) -> str:
    """Answer at once."""
    ctx.progress(1, 2, "about to say it")
    return f"{arguments.get('text', 'nothing')} (attempt {ctx.turn.attempt})"


@agent.tool("wait", "Wait until a file exists", input_schema=_ANY)
async def wait(ctx: CallContext, arguments: JsonObject) -> str:
    """Answer when the file is there; `FILE.stopped` is made when it is cancelled before."""
    file = Path(arguments["file"])
    ctx.progress(1, None, f"waiting in attempt {ctx.turn.attempt}")
    try:
        await _until_there(file)
    except asyncio.CancelledError:
        file.with_suffix(".stopped").touch()
        raise
    return f"waited in attempt {ctx.turn.attempt}"


@agent.tool("think", "Take the time that a model takes", input_schema=_ANY)
async def think(ctx: CallContext, arguments: JsonObject) -> str:
    """Answer after a fifth of a second."""
    await asyncio.sleep(0.2)
    return "thought"


@agent.tool("count", "Count to 20, and in the middle wait until a file exists", input_schema=_ANY)
async def count(ctx: CallContext, arguments: JsonObject) -> str:
    """Say every number twice: as progress and, by its attempt, as a log message."""
    file = Path(arguments["file"])
    for number in range(1, 21):
        ctx.progress(number, 20)
        ctx.log("info", f"{number} in attempt {ctx.turn.attempt}")
        if number == 10:
            await _until_there(file)
    return f"counted in attempt {ctx.turn.attempt}"


@agent.tool("recite", "Write as a model does, and in the middle wait until a file exists", input_schema=_ANY)
async def recite(ctx: CallContext, arguments: JsonObject) -> str:
    """Write ten pieces of text, and between them those of a sub-agent."""
    words = [f"{number} in attempt {ctx.turn.attempt}; " for number in range(1, 11)]
    for number, word in enumerate(words, 1):
        ctx.emit.emit(TextDelta(agent=ctx.turn.agent, text=word))
        ctx.emit.emit(TextDelta(agent="reader", text="not this"))
        if number == 5:
            ctx.progress(1, None, f"waiting in attempt {ctx.turn.attempt}")
            await _until_there(Path(arguments["file"]))
    return "".join(words)


@agent.tool("effect", "Have an effect, then wait until a file exists", input_schema=_ANY)
async def effect(ctx: CallContext, arguments: JsonObject) -> Answer:
    """Say that an effect begins, then do as `wait` does."""
    await _write(ctx, arguments)
    return await wait(ctx, arguments)


@agent.tool("late_effect", "Wait until a file exists, then have an effect", input_schema=_ANY)
async def late_effect(ctx: CallContext, arguments: JsonObject) -> Answer:
    """Do as `wait` does, then have an effect."""
    answer = await wait(ctx, arguments)
    await _write(ctx, arguments)
    return answer


@agent.tool("ask", "Ask for a name, then greet it")
async def ask(ctx: CallContext, arguments: JsonObject) -> Answer:
    """Answer once the caller has come back with a name."""
    if ctx.input_responses is None:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        wanted = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": schema}}
        return InputRequired(input_requests={"name": wanted}, request_state="asked once")
    return f"{ctx.request_state}: {ctx.input_responses['name']['content']['name']}"


@agent.tool("crash", "Fail")
async def crash(ctx: CallContext, arguments: JsonObject) -> str:
    """Fail in a way nobody foresaw."""
    raise RuntimeError("a secret of the function")


@agent.tool("give_up", "Await something that was cancelled")
async def give_up(ctx: CallContext, arguments: JsonObject) -> str:
    """Fail with the CancelledError of a task of its own."""
    own = asyncio.create_task(asyncio.Event().wait())
    own.cancel()
    await own
    return "never"


@agent.tool("stay", "Do not end, whoever wants it", input_schema=_ANY)
async def stay(ctx: CallContext, arguments: JsonObject) -> str:
    """Wait until a file exists, also when it is cancelled."""
    ctx.progress(1, None, f"waiting in attempt {ctx.turn.attempt}")
    while True:
        with suppress(asyncio.CancelledError):
            await _until_there(Path(arguments["file"]))
            return f"stayed in attempt {ctx.turn.attempt}"


@agent.prompt("greeting", "A greeting", arguments=[{"name": "name", "required": True}])
async def greeting(ctx: ReadContext, arguments: dict[str, str]) -> str:
    """Greet somebody."""
    return f"Greet {arguments['name']}"


async def _write(ctx: CallContext, arguments: JsonObject) -> None:
    """Have an effect that can be counted: a line in `FILE.effects`."""
    await ctx.side_effect("write")
    _append(Path(arguments["file"]).with_suffix(".effects"), f"{ctx.turn.attempt}\n")


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line)


async def _until_there(file: Path) -> None:
    while not _is_there(file):  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)


def _is_there(file: Path) -> bool:
    return file.exists()
