"""A chain of 10 steps and a fan-out of 100 on other engines: `PEER TIMES FOLDER [POSTGRES]`.

It runs in an environment of its own.

A step adds one to a number. Prints JSON: seconds of each run by shape. PEER is `dbos-steps` (steps in the process of
their workflow), `dbos-queue` (each step is a workflow that any process may take from a queue), `prefect`, `langgraph`.
"""

import asyncio
import json
import operator
import os
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypedDict

CHAIN, FAN_OUT = 10, 100
_QUEUE = "steps"
_POLLS = 0.001
"""Seconds between two looks of DBOS into its queue; its default is 1."""

type Shape = Callable[[], Awaitable[int]]
"""Runs once, and returns the sum that it has computed."""


async def measure(times: int, chain: Shape, fan_out: Shape) -> None:
    """Run both, and print how long each run took."""
    found: dict[str, list[float]] = {}
    for name, shape, wanted in (("chain", chain, CHAIN), ("fan_out", fan_out, sum(range(1, FAN_OUT + 1)))):
        for _ in range(times + 1):
            began = time.perf_counter()
            if (answer := await shape()) != wanted:
                raise SystemExit(f"{name}: {answer} instead of {wanted}")
            found.setdefault(name, []).append(time.perf_counter() - began)
    print(json.dumps({name: seconds[1:] for name, seconds in found.items()}))


async def dbos(times: int, folder: Path, postgres: str, *, queued: bool) -> None:
    module: Any = import_module("dbos")  # in an environment where the type check does not look
    engine = module.DBOS
    engine(config={"name": "bench", "system_database_url": postgres, "log_level": "ERROR"})

    async def add(number: int) -> int:
        return number + 1

    step = engine.workflow()(add) if queued else engine.step()(add)

    async def made(number: int) -> int:
        if not queued:
            return await step(number)
        return await (await engine.enqueue_workflow_async(_QUEUE, step, number)).get_result(polling_interval_sec=_POLLS)

    @engine.workflow()
    async def chain() -> int:
        number = 0
        for _ in range(CHAIN):
            number = await made(number)
        return number

    @engine.workflow()
    async def fan_out() -> int:
        if not queued:
            return sum(await asyncio.gather(*(made(number) for number in range(FAN_OUT))))
        handles = [await engine.enqueue_workflow_async(_QUEUE, step, number) for number in range(FAN_OUT)]
        return sum([await handle.get_result(polling_interval_sec=_POLLS) for handle in handles])

    engine.launch()
    try:
        await engine.register_queue_async(_QUEUE, polling_interval_sec=_POLLS)
        await measure(times, chain, fan_out)
    finally:
        engine.destroy()


async def prefect(times: int, folder: Path) -> None:
    """Prefect with a server of its own on sqlite."""
    os.environ |= {
        "PREFECT_HOME": str(folder),
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "60",
    }
    module: Any = import_module("prefect")

    @module.task
    async def add(number: int) -> int:
        return number + 1

    @module.flow
    async def chain() -> int:
        number = 0
        for _ in range(CHAIN):
            number = await add(number)
        return number

    @module.flow
    async def fan_out() -> int:
        return sum(await asyncio.gather(*(add(number) for number in range(FAN_OUT))))

    await measure(times, chain, fan_out)


class _Numbers(TypedDict):
    number: int
    added: Annotated[list[int], operator.add]


async def langgraph(times: int, folder: Path) -> None:
    """LangGraph with its sqlite checkpointer."""
    graph: Any = import_module("langgraph.graph")
    send: Any = import_module("langgraph.types").Send
    saver: Any = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    runs = iter(range(10**6))

    async def add(state: _Numbers) -> dict[str, int]:
        return {"number": state["number"] + 1}

    async def add_item(state: _Numbers) -> dict[str, list[int]]:
        return {"added": [state["number"] + 1]}

    def items(state: _Numbers) -> list[Any]:
        return [send("item", {"number": number}) for number in range(FAN_OUT)]

    one, many = graph.StateGraph(_Numbers), graph.StateGraph(_Numbers)
    for number in range(CHAIN):
        one.add_node(f"add{number}", add)
        one.add_edge(f"add{number - 1}" if number else graph.START, f"add{number}")
    many.add_node("item", add_item)
    many.add_conditional_edges(graph.START, items, ["item"])
    async with saver.from_conn_string(str(folder / "checkpoints.sqlite")) as checkpointer:

        async def run(compiled: Any) -> _Numbers:
            config = {"configurable": {"thread_id": str(next(runs))}}
            return await compiled.ainvoke({"number": 0, "added": []}, config, durability="sync")

        chain, fan_out = (it.compile(checkpointer=checkpointer) for it in (one, many))

        async def chained() -> int:
            return (await run(chain))["number"]

        async def fanned_out() -> int:
            return sum((await run(fan_out))["added"])

        await measure(times, chained, fanned_out)


def main() -> None:
    """Run one peer."""
    peer, times, folder, *postgres = sys.argv[1:]
    match peer:
        case "dbos-steps" | "dbos-queue":
            work = dbos(int(times), Path(folder), postgres[0], queued=peer == "dbos-queue")
        case "prefect":
            work = prefect(int(times), Path(folder))
        case _:
            work = langgraph(int(times), Path(folder))
    asyncio.run(work)


if __name__ == "__main__":
    main()
