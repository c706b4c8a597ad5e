"""What the figures should be. A target without its figures (a part was left out) is not judged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tests.bench.fleet.tables as fleet
from tests.bench import data_agents, fastagent, pipelines
from tests.bench.auth.changing import PROTECTED, UNPROTECTED
from tests.bench.auth.resolving import ROUND_TRIP, WARM
from tests.bench.auth.run import RESOLVE, STALE
from tests.bench.console.pages import COLD
from tests.bench.console.peers import CHAINLIT, OPEN_WEBUI
from tests.bench.console.run import CHAT, HOME, NEW_CHAT
from tests.bench.figures import paired_ratio, percentile
from tests.bench.throughput import FUNCTION, FUNCTION_SDK, LLM, LLM_SDK

type Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A figure, its limit and which side of the limit is good."""

    name: str
    figure: Callable[[Results], float]
    limit: float
    at_least: bool
    unit: str

    def judge(self, results: Results) -> dict[str, Any] | None:
        """The figure beside its limit, or None when it was not measured."""
        try:
            figure = self.figure(results)
        except (KeyError, ZeroDivisionError):
            return None
        met = figure >= self.limit if self.at_least else figure <= self.limit
        wanted = f"{'>=' if self.at_least else '<='} {self.limit:g} {self.unit}".strip()
        return {"name": self.name, "figure": figure, "unit": self.unit, "wanted": wanted, "met": met}


def _cell(results: Results, subject: str, concurrency: int) -> dict[str, Any]:
    return results["throughput"][subject][str(concurrency)]


def _ratio(subject: str, other: str, concurrency: int, figure: str) -> Callable[[Results], float]:
    rounds = f"{figure}_rounds"
    return lambda results: paired_ratio(
        _cell(results, subject, concurrency)[rounds], _cell(results, other, concurrency)[rounds]
    )


def _hosted(plain: bool) -> Callable[[Results], float]:
    """Turns a second at 64 callers, of those of fast-agent's stateless server."""
    pair = (fastagent.PLAIN_HOSTED, fastagent.PLAIN_STATELESS) if plain else (fastagent.HOSTED, fastagent.STATELESS)

    def ratio(results: Results) -> float:
        ours, theirs = (results["fast-agent"]["subjects"][it]["64"]["per_second_rounds"] for it in pair)
        return paired_ratio(ours, theirs)

    return ratio


def _plain_hosted(results: Results) -> float:
    return results["fast-agent"]["subjects"][fastagent.PLAIN_HOSTED]["64"]["per_second"]


_FAST_AGENT = (
    Target("fast-agent-worker, no servers: turns/s at 64 callers", _plain_hosted, 250.0, True, ""),
    Target("fast-agent-worker, no servers: turns/s, of fast-agent", _hosted(plain=True), 1.0, True, "x"),
    Target("fast-agent-worker, a server: turns/s at 64 callers, of fast-agent", _hosted(plain=False), 12.0, True, "x"),
    Target(
        "fast-agent-worker: an agent with three servers is made",
        lambda it: it["fast-agent"]["starts"]["builds"]["worker"],
        2.0,
        False,
        "ms",
    ),
    Target(
        "fast-agent-worker: scale from zero",
        lambda it: percentile(it["fast-agent"]["starts"]["from_zero"], 0.5),
        8.0,
        False,
        "s",
    ),
    Target(
        "fast-agent-worker: 20 cards are ready",
        lambda it: percentile(it["fast-agent"]["starts"]["cards"], 0.5),
        6.0,
        False,
        "s",
    ),
)


def _beside_fast_agent(concurrency: int, figure: str) -> Callable[[Results], float]:
    def ratio(results: Results) -> float:
        subjects, rounds = results["fast-agent"]["subjects"], f"{figure}_rounds"
        ours, theirs = (subjects[it][str(concurrency)][rounds] for it in (fastagent.PALLAS, fastagent.SESSIONS))
        return paired_ratio(ours, theirs)

    return ratio


def _data_agent(concurrency: int, figure: str) -> Callable[[Results], float]:
    return lambda results: results["data-agents"]["subjects"][data_agents.PALLAS][str(concurrency)][figure]


def _beside_fastapi(results: Results) -> float:
    subjects = results["data-agents"]["subjects"]
    ours, theirs = (subjects[it]["64"]["per_second_rounds"] for it in (data_agents.PALLAS, data_agents.PEER))
    return paired_ratio(ours, theirs)


def _chain(results: Results, subject: str) -> float:
    return percentile(results["pipelines"]["runs"][subject]["chain"], 0.5)


def _times_faster(peer: str) -> Callable[[Results], float]:
    return lambda results: _chain(results, peer) / _chain(results, pipelines.PALLAS)


def _modules_per_second(results: Results) -> float:
    return pipelines.children_per_second(results["pipelines"]["runs"][pipelines.PALLAS])


def _resolve_ratio(concurrency: int, figure: str) -> Callable[[Results], float]:
    def ratio(results: Results) -> float:
        ways, rounds = results[RESOLVE], f"{figure}_rounds"
        return paired_ratio(ways[WARM][str(concurrency)][rounds], ways[ROUND_TRIP][str(concurrency)][rounds])

    return ratio


def _resolve_targets(concurrency: int) -> tuple[Target, Target]:
    asked = f"auth.resolve warm, {concurrency} at once"
    return (
        Target(f"{asked}: rate, of a NATS round trip", _resolve_ratio(concurrency, "per_second"), 0.5, True, "x"),
        Target(f"{asked}: p99, of a NATS round trip", _resolve_ratio(concurrency, "p99_ms"), 3.0, False, "x"),
    )


def _console(part: str, figure: str) -> Callable[[Results], float]:
    return lambda results: results["console"][part][figure]


def _page(name: str, figure: str) -> Callable[[Results], float]:
    return lambda results: results["console"]["pages"][name][COLD][figure]


def _times_less(peer: str) -> Callable[[Results], float]:
    return lambda results: _page(peer, "kb")(results) / _page(NEW_CHAT, "kb")(results)


_CONSOLE = (
    Target("console: first paint", _page(HOME, "paint_ms"), 150.0, False, "ms"),
    Target("console: first paint of a chat opened directly", _page(CHAT, "paint_ms"), 150.0, False, "ms"),
    Target("console: requests of a chat opened directly", _page(CHAT, "requests"), 25.0, False, ""),
    Target("console: bytes of a chat opened directly", _page(CHAT, "kb"), 120.0, False, "kB"),
    *(
        Target(f"console: bytes of a new chat, less than {peer}", _times_less(peer), 5.0, True, "x")
        for peer in (CHAINLIT, OPEN_WEBUI)
    ),
    Target("console: an agent's progress -> pixels, p95", _console("progress", "p95_ms"), 60.0, False, "ms"),
    Target("console: what it adds to a turn, p50", _console("overhead", "added_p50_ms"), 8.0, False, "ms"),
    Target("console: service with 200 open chats", _console("open", "rss_mib"), 250.0, False, "MiB"),
    Target("console: service killed -> the page goes on", _console("kill", "max_s"), 3.0, False, "s"),
    Target("console: first poll of 500 agents", _console("polls", "first_s"), 2.0, False, "s"),
    Target("console: following polls of 500 agents", _console("polls", "following_s"), 2.0, False, "s"),
    Target("console: polls of 500 agents, of a core", _console("polls", "core_share"), 0.05, False, ""),
    Target("attach -> Mnemosyne has the PUT: p50", _console("attaching", "p50_ms"), 30.0, False, "ms"),
    Target("attach -> Mnemosyne has the PUT: p95", _console("attaching", "p95_ms"), 150.0, False, "ms"),
    Target("1,000 instances compared with Mnemosyne", _console("reconciled", "in_order_s"), 30.0, False, "s"),
    Target("1,000 instances put in order in Mnemosyne", _console("reconciled", "lost_s"), 30.0, False, "s"),
)


def _fleet(*path: str, share: float = 0.95) -> Callable[[Results], float]:
    def figure(results: Results) -> float:
        found = results["fleet"]
        for part in path:
            found = found[part]
        return fleet.ms(found, share)

    return figure


_FLEET = (
    Target("list_agents of 100, warm, p95", _fleet("list", "100", "warm"), 60.0, False, "ms"),
    Target("list_agents of 100, cold, p95", _fleet("list", "100", "cold"), 500.0, False, "ms"),
    Target(
        "list_agents of 50, faster than setup-fleet-mcp",
        lambda it: fleet.times_faster(it["fleet"], "50"),
        10,
        True,
        "x",
    ),
    Target("status of an agent with a task seen: p95", _fleet("tasks", "seen_busy"), 500.0, False, "ms"),
    Target("status of another agent seen: p95", _fleet("tasks", "typed_seen"), 2500.0, False, "ms"),
    Target("page of 20 of 1,000 tasks: p50", _fleet("history", "1000", "20", share=0.5), 10.0, False, "ms"),
    Target("page of 20 of 100,000 tasks: p95", _fleet("history", "100000", "20"), 50.0, False, "ms"),
    Target("start of a task, beyond AgentAPI: p50", lambda it: fleet.added_ms(it["fleet"]), 50.0, False, "ms"),
    Target("stop of a task -> interrupt: p95", _fleet("tasks", "escape"), 100.0, False, "ms"),
    Target("fleet killed -> all tasks watched", lambda it: it["fleet"]["kill"]["seconds"], 2.0, False, "s"),
    Target("fleet killed: prompts typed again", lambda it: it["fleet"]["kill"]["typed_again"], 0.0, False, ""),
    Target("fleet with 200 tasks at once: memory", lambda it: it["fleet"]["at_once"]["rss_mib"], 150.0, False, "MiB"),
    Target("fleet with 200 tasks at once: of a core", lambda it: it["fleet"]["at_once"]["core_share"], 0.1, False, ""),
)

TARGETS = (
    Target("LLM agent: p50 at 1 caller, of (a)", _ratio(LLM, LLM_SDK, 1, "p50_ms"), 1.15, False, "x"),
    Target("LLM agent: turns/s at 64 callers, of (a)", _ratio(LLM, LLM_SDK, 64, "per_second"), 1.6, True, "x"),
    Target("function agent: p50 at 1 caller", lambda it: _cell(it, FUNCTION, 1)["p50_ms"], 1.9, False, "ms"),
    Target(
        "function agent: CPU a turn, all processes, 64 callers",
        lambda it: _cell(it, FUNCTION, 64)["cpu_ms_total"],
        1.6,
        False,
        "ms",
    ),
    Target(
        "function agent: turns/s at 64 callers, of the SDK in process",
        _ratio(FUNCTION, FUNCTION_SDK, 64, "per_second"),
        0.6,
        True,
        "x",
    ),
    Target(
        "gateway memory for each of 5,000 waiting turns",
        lambda it: it["memory"]["modern"]["5000"]["kib_per_turn"],
        40.0,
        False,
        "KiB",
    ),
    Target("LLM agent with a tool: p50 at 1 caller, of fast-agent", _beside_fast_agent(1, "p50_ms"), 1.0, False, "x"),
    Target(
        "LLM agent with a tool: turns/s at 64 callers, of fast-agent",
        _beside_fast_agent(64, "per_second"),
        1.0,
        True,
        "x",
    ),
    *_FAST_AGENT,
    Target("worker killed in step 7 of 10 -> turns answered", lambda it: it["journal"]["kill"]["share"], 1.0, True, ""),
    Target(
        "worker killed in step 7 of 10 -> model calls of a turn, at most",
        lambda it: max(it["journal"]["kill"]["model_calls"]),
        12.0,
        False,
        "",
    ),
    Target(
        "worker killed in step 7 of 10 -> tool calls of a turn, at most",
        lambda it: max(it["journal"]["kill"]["tool_calls"]),
        10.0,
        False,
        "",
    ),
    Target("worker killed in step 7 of 10 -> longer by", lambda it: it["journal"]["kill"]["longer_s"], 1.5, False, "s"),
    Target("rolling restart: turns lost", lambda it: it["journal"]["restart"]["lost"], 0.0, False, ""),
    Target("rolling restart: calls made twice", lambda it: it["journal"]["restart"]["again"], 0.0, False, ""),
    Target("rolling restart: calls not made", lambda it: it["journal"]["restart"]["left_out"], 0.0, False, ""),
    Target("journal: CPU a step, all processes", lambda it: it["journal"]["cost"]["all_ms"], 0.15, False, "ms"),
    Target("data agent: p50 at 1 caller", _data_agent(1, "p50_ms"), 4.0, False, "ms"),
    Target("data agent: calls/s at 64 callers", _data_agent(64, "per_second"), 550.0, True, ""),
    Target("data agent: calls/s at 64 callers, of fastapi-jsonrpc in process", _beside_fastapi, 0.12, True, "x"),
    Target("pool with 1,000 idle agents", lambda it: it["data-agents"]["idle"]["pool_mib"], 300.0, False, "MiB"),
    Target(
        "heartbeats of 10,000 agents, pool and broker: of a core",
        lambda it: it["data-agents"]["idle"]["core_share"],
        0.05,
        False,
        "",
    ),
    Target("pipeline of 10 remote modules: p50", lambda it: 1000 * _chain(it, pipelines.PALLAS), 35.0, False, "ms"),
    Target(
        "pipeline of 10 remote modules: faster than DBOS with a queue",
        _times_faster(pipelines.DBOS_QUEUE),
        3.0,
        True,
        "x",
    ),
    Target("pipeline of 10 remote modules: faster than Prefect", _times_faster(pipelines.PREFECT), 25.0, True, "x"),
    Target("pipeline: modules/s in a fan-out of 100", _modules_per_second, 450.0, True, ""),
    Target("pipeline: a function in process", lambda it: it["pipelines"]["node_ms"], 0.05, False, "ms"),
    Target(
        "pipeline: validate at 50 callers, p95", lambda it: it["pipelines"]["validate"]["p95_ms"], 40.0, False, "ms"
    ),
    Target("pipeline's process killed -> next module", lambda it: it["pipelines"]["kill"]["p50_s"], 1.2, False, "s"),
    *_FLEET,
    *_CONSOLE,
    Target("pallas up -> agents answer: p50", lambda it: it["startup"]["up"]["p50_s"], 3.0, False, "s"),
    Target("worker started -> a waiting turn runs: p50", lambda it: it["startup"]["worker"]["p50_s"], 1.5, False, "s"),
    Target("worker killed -> next event at the caller: p50", lambda it: it["kill"]["p50_s"], 1.5, False, "s"),
    Target("worker killed -> next event at the caller: p99", lambda it: it["kill"]["p99_s"], 3.0, False, "s"),
    *(target for concurrency in (1, 64, 256) for target in _resolve_targets(concurrency)),
    Target("stale answers, unprotected", lambda it: it[STALE][UNPROTECTED]["answers"]["stale"], 1.0, True, ""),
    Target("stale answers, protected", lambda it: it[STALE][PROTECTED]["answers"]["stale"], 0.0, False, ""),
    Target("1 -> 4 workers, of linear", lambda it: it["scaling"]["workers"]["4"]["of_linear"], 0.9, True, "x"),
)


def judged(results: Results) -> list[dict[str, Any]]:
    """All targets whose figures are there."""
    return [verdict for target in TARGETS if (verdict := target.judge(results)) is not None]
