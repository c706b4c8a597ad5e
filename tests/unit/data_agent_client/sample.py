"""A data agent for the tests of the client, run as a program: `python sample.py URL`."""

import asyncio
import logging
import os
import subprocess
import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from pallas_data_agent import DataAgent, ToolError, call_meta, run_agents

agent = DataAgent("sample", title="Sample", timeout=30, memory="128MB", resources=["a_source"], heartbeat=0.05)
hasty = DataAgent("hasty", timeout=0.2, max_concurrency=1, heartbeat=None)
_seen: ContextVar[int] = ContextVar("seen", default=0)


@dataclass
class Person:
    """Somebody."""

    name: str
    age: int = 0


class Greeting(TypedDict):
    """What is said."""

    text: str
    loud: NotRequired[bool]


@agent.tool
def greet(people: list[Person], *, loud: bool | None = None) -> Greeting:
    """Greet people."""
    return {"text": ", ".join(f"{each.name} ({each.age})" for each in people), "loud": bool(loud)}


@agent.tool
async def double(number: int) -> int:
    """Double a number."""
    await asyncio.sleep(0)
    return number * 2


@agent.tool
def meet(folder: str, name: str, other: str) -> None:
    """Return when the other call has begun."""
    open(f"{folder}/{name}", "w").close()
    while not os.path.exists(f"{folder}/{other}"):
        time.sleep(0.001)


@agent.tool
def sleep(folder: str) -> None:
    """Start a program that sleeps, and sleep."""
    _start_program(folder)
    time.sleep(60)


def _start_program(folder: str) -> None:
    """Start a program that sleeps; the ids of both processes are in the file `pids` then."""
    program = subprocess.Popen(["sleep", "60"])
    with open(f"{folder}/new", "w") as file:
        file.write(f"{os.getpid()} {program.pid}")
    os.rename(f"{folder}/new", f"{folder}/pids")


@agent.tool
def end_when(folder: str) -> str:
    """Return when somebody has made the file `end`."""
    open(f"{folder}/begun", "w").close()
    while not os.path.exists(f"{folder}/end"):
        time.sleep(0.001)
    return "ended"


@agent.tool
def eat(megabytes: int) -> int:
    """Take memory."""
    return len(bytearray(megabytes * 10**6))


@agent.tool
def fail(secret: str) -> None:
    """Raise an exception of no special kind."""
    raise ValueError(f"the password is {secret}")


@agent.tool
def refuse(reason: str) -> None:
    """Raise what the caller shall read."""
    raise ToolError(reason)


@agent.tool
def crash(folder: str) -> None:
    """Start a program that sleeps, and end the process."""
    _start_program(folder)
    os._exit(3)


@agent.tool
def not_json() -> Any:
    """Return what has no JSON."""
    return object()


@agent.tool
def odd() -> Any:
    """Return what Python encodes as JSON and no other reader takes."""
    return {"numbers": [1.5, float("nan"), float("-inf")], "half \ud83d": ("\ude00", "\ud83d\ude00")}


@agent.tool
def wait_a_bit() -> str:
    """Return a little later."""
    time.sleep(0.2)
    return "done"


@agent.tool
def remember() -> list[int]:
    """The process id, and how often this function ran in this context."""
    _seen.set(_seen.get() + 1)
    return [os.getpid(), _seen.get()]


@agent.tool
def task() -> Any:
    """The `meta` of the call."""
    return dict(call_meta())


@agent.tool
def long(letters: int) -> str:
    """A text of that length."""
    return "x" * letters


@hasty.tool(name="Wait", description="Wait.")
def wait(seconds: float) -> None:
    """Wait for some seconds."""
    time.sleep(seconds)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    run_agents([agent, hasty], sys.argv[1], *sys.argv[2:])
