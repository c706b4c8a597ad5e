"""The product with its log in one shard and in two: gateway, brokers and workers as they run, and callers that wait.

Two platforms run side by side, each with a cluster of its own and two teams. The rounds go from one to the other, so
what disturbs one disturbs both. A broker may use only a share of a core, which stands for a machine of its own.
Otherwise Python would need both cores of this one before a leader is at its limit.
"""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.calls import Call
from tests.bench.figures import Cell, paired_ratio
from tests.bench.load_process import Load, load_process
from tests.bench.processes import Measured, cpu_seconds
from tests.bench.scale.brokers import Cluster, brokers, held_to
from tests.bench.tables import table

from pallas_bus.transport.kv import put
from pallas_bus.turnlog.queue import consumer_name
from pallas_cli.shards.moving import after_move
from pallas_contracts.catalog import SHARDS, TURN_LOG, TURN_QUEUE
from pallas_contracts.shards import TeamShard, name_in

SHARDS_COMPARED = (1, 2)
TEAMS = ("bench0", "bench1")
AGENTS = ("worker", "talker")
AT_ONCE = 96
"""Callers of each team: enough that a leader always has something to do. Its worker has a slot for each."""
_BROKERS = 3
_WARM_UP = 2.0


@dataclass(frozen=True, slots=True)
class Extent:
    """`share` is how much of a core each broker may use."""

    rounds: int
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Platform:
    """One platform, and a call of each team."""

    cluster: Cluster
    calls: Sequence[Call]
    processes: Sequence[Measured]


async def measure(folder: Path, extent: Extent, report: Callable[[str], None]) -> dict[str, Any]:
    """Turns a second of both platforms in each round, and the CPU of each process a turn."""
    async with AsyncExitStack() as parts:
        loads = [parts.enter_context(load_process(folder)) for _ in TEAMS]
        platforms = dict[int, Platform]()
        for shards in SHARDS_COMPARED:
            report(f"the product, {shards} shard(s): starting")
            platforms[shards] = await parts.enter_async_context(_platform(_folder(folder, shards), shards, loads[0]))
        cells = {shards: Cell() for shards in SHARDS_COMPARED}
        for number in range(extent.rounds):
            for shards, platform in platforms.items():
                await _round(platform, loads, extent, cells[shards])
                report(f"  round {number + 1}, {shards} shard(s): {cells[shards].rates[-1]:.0f} turns/s")
        for shards, platform in platforms.items():
            await _lead(platform.cluster, shards)  # an election would have made other rounds of them
    one, two = (cells[shards] for shards in SHARDS_COMPARED)
    return {
        "brokers": _BROKERS,
        "share": extent.share,
        "shards": {str(shards): cell.summary() for shards, cell in cells.items()},
        "ratio": paired_ratio(two.rates, one.rates),
    }


async def _round(platform: Platform, loads: Sequence[Load], extent: Extent, cell: Cell) -> None:
    async with held_to(extent.share, platform.cluster.measured):
        await _call(platform, loads, _WARM_UP)
        before = cpu_seconds(platform.processes)
        runs = await _call(platform, loads, extent.seconds)
        after = cpu_seconds(platform.processes)
    both = {
        "latencies": [each for run in runs for each in run["latencies"]],
        "seconds": max(run["seconds"] for run in runs),
        "wrong": sum(run["wrong"] for run in runs),
        "faults": [fault for run in runs for fault in run["faults"]],
    }
    cell.add(both, {name: after[name] - before[name] for name in after})


async def _call(platform: Platform, loads: Sequence[Load], seconds: float) -> list[dict[str, Any]]:
    """Have both teams called at the same time, each by a load process of its own."""
    pairs = zip(loads, platform.calls, strict=True)
    return await asyncio.gather(*(asyncio.to_thread(load.run, call, AT_ONCE, seconds) for load, call in pairs))


def _folder(folder: Path, shards: int) -> Path:
    made = folder / str(shards)
    made.mkdir()
    return made


@asynccontextmanager
async def _platform(folder: Path, shards: int, load: Load) -> AsyncGenerator[Platform]:
    """A platform on three brokers. Its services are at the brokers as its teams are: evenly."""
    variables = {"PALLAS_LOG_SHARDS": str(shards), "PALLAS_STREAM_REPLICAS": str(_BROKERS)}
    async with AsyncExitStack() as parts:
        cluster = await parts.enter_async_context(brokers(_BROKERS))
        gateway = parts.enter_context(stack.gateway(folder, cluster.servers[2].url, variables))
        if shards > 1:
            place = after_move(TeamShard(team=TEAMS[1]), 1, datetime.now(UTC), timedelta(days=7), {})
            await put(cluster.bus, SHARDS, place, team=place.team)
        workers = [
            parts.enter_context(
                stack.starting_worker(folder, server.url, variables, slots=2 * AT_ONCE, team=_team(folder, team))
            )
            for team, server in zip(TEAMS, cluster.servers, strict=False)
        ]
        for worker in workers:
            worker.wait_for("readyz")
        work = stack.function_call(gateway.port)
        calls = [replace(work, path=f"/teams/{team}/mcp/worker") for team in TEAMS]
        for call in calls:
            stack.until_right(load, call)
        await _lead(cluster, shards)
        yield Platform(cluster, calls, (gateway, *workers, *cluster.measured))


def _team(folder: Path, name: str) -> Path:
    """The benchmark's team under another name."""
    copy = folder / name
    shutil.copytree(stack.TEAM, copy)
    described = (copy / "agents.yaml").read_text("utf-8")
    (copy / "agents.yaml").write_text(described.replace("name: bench", f"name: {name}"), "utf-8")
    return copy


async def _lead(cluster: Cluster, shards: int) -> None:
    """Have each shard led by a broker of its own: its log, its queue, and the consumers of its team."""
    for shard in range(shards):
        log, queue = (name_in(stream, shard) for stream in (TURN_LOG, TURN_QUEUE))
        teams = TEAMS if shards == 1 else TEAMS[shard : shard + 1]
        consumers = [f"CONSUMER.{{}}.{queue}.{consumer_name(team, agent)}" for team in teams for agent in AGENTS]
        for api in (f"STREAM.{{}}.{log}", f"STREAM.{{}}.{queue}", *consumers):
            await cluster.lead(api, shard)


def section(found: dict[str, Any]) -> str:
    """The table."""
    head = (
        "shards",
        "turns/s",
        "rounds",
        "p50 ms",
        "p99 ms",
        "brokers' CPU, ms a turn",
        "gateway and workers, ms a turn",
    )
    rows = [
        (
            shards,
            f"{it['per_second']:.0f}",
            ", ".join(f"{rate:.0f}" for rate in it["per_second_rounds"]),
            f"{it['p50_ms']:.0f}",
            f"{it['p99_ms']:.0f}",
            ", ".join(f"{spent:.2f}" for name, spent in it["cpu_ms"].items() if name.startswith("n")),
            f"{sum(spent for name, spent in it['cpu_ms'].items() if not name.startswith('n')):.2f}",
        )
        for shards, it in found["shards"].items()
    ]
    note = (
        f"Two teams with a worker each, one gateway, {found['brokers']} brokers with three copies of every stream, "
        f"{len(TEAMS) * AT_ONCE} callers; turns of a function agent with five lines of progress. Each broker may use "
        f"{found['share']:.2f} of a core, which stands for its machine. With two shards each team is in one, and each "
        "shard is led by a broker of its own. Both platforms are measured in each round; the rates are medians."
    )
    ratio = f"Two shards carry {found['ratio']:.2f} times the turns of one (median of the ratios round by round)."
    return "\n\n".join(("## The product with its log in shards", note, table(head, rows), ratio))


def faults(found: dict[str, Any]) -> list[str]:
    """What was wrong."""
    return [
        f"the product, {shards} shard(s): {it['wrong']} wrong, for example {it['faults'][:1]}"
        for shards, it in found["shards"].items()
        if it["wrong"]
    ]
