"""Writes down each of its effects in a file, a line each with the worker, in steps that may not be made again."""

import asyncio
import os

from agent_worker.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()
_PAUSE = 0.1
_ANY: JsonObject = {"type": "object"}


@agent.tool("note", "Write a line down", input_schema=_ANY)
async def note(ctx: CallContext, arguments: JsonObject) -> str:
    """One effect."""
    return await ctx.step("note", _write, arguments["file"], arguments["line"])


@agent.tool("tick", "Write a line down again and again, until a file exists", input_schema=_ANY)
async def tick(ctx: CallContext, arguments: JsonObject) -> str:
    """Many effects; the turn goes on at another worker between two of them."""
    number = 0
    while not await ctx.step("look", _exists, arguments["gate"], retry="safe"):
        await ctx.step("tick", _write, arguments["file"], f"{arguments['line']} {number}")
        number += 1
    return str(number)


async def _write(file: str, line: str) -> str:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(handle, f"{line}\t{os.environ['PALLAS_INSTANCE']}\n".encode())
    finally:
        os.close(handle)
    return line


async def _exists(path: str) -> bool:
    await asyncio.sleep(_PAUSE)
    return os.access(path, os.F_OK)
