"""The tables of the fleet."""

from typing import Any

from tests.bench.figures import percentile
from tests.bench.fleet.world import PALLAS, PEER
from tests.bench.tables import table


def ms(seconds: list[float], share: float) -> float:
    """A percentile in milliseconds."""
    return 1000 * percentile(seconds, share)


def added_ms(found: dict[str, Any]) -> float:
    """What a start takes longer than AgentAPI alone, at the median."""
    return ms(found["tasks"]["start"], 0.5) - ms(found["tasks"]["said"], 0.5)


def times_faster(found: dict[str, Any], agents: str) -> float:
    """How many times as fast as the peer a list of agents is, at the median."""
    listed = found["list"][agents]
    return ms(listed["peer"], 0.5) / ms(listed["warm"], 0.5)


def section(found: dict[str, Any]) -> str:
    """The tables."""
    listing = [
        (f"`list_agents`, {size} agents, {state}", *_row(seconds))
        for size, cells in found["list"].items()
        for state, seconds in (("warm", cells["warm"]), ("cold", cells["cold"]), (PEER, cells["peer"]))
    ]
    tools = [
        (f"`{tool}`{'' if subject == PALLAS else f', {PEER}'}", *_row(seconds))
        for tool, subjects in found["tools"].items()
        for subject, seconds in subjects.items()
    ]
    named = {
        "said": "a prompt at AgentAPI alone",
        "start": "`start_agent_task`",
        "escape": "`stop_agent_task` called -> the agent is interrupted",
        "stop": "`stop_agent_task`",
        "seen_busy": "a task started -> busy in `list_agents`",
        "seen_idle": "a task stopped -> idle in `list_agents`",
        "typed_seen": "a person typed in Coder -> busy in `list_agents`",
    }
    tasks = [(name, *_row(found["tasks"][key])) for key, name in named.items()]
    histories = [
        (f"a page of {size} of {int(length):,} tasks", *_row(seconds))
        for length, sizes in found["history"].items()
        for size, seconds in sizes.items()
    ]
    once, kill = found["at_once"], found["kill"]
    note = (
        f"{PEER} {found['version']} is the server for whose tools the contract was written. Both have the same "
        "stand-in for Coder, whose agents are programs in terminals, and are called by the official client over HTTP, "
        "ours through the gateway. The peer keeps nothing: it asks Coder for each agent anew, one after the other. "
        "Ours asks for all at once, and again after two seconds (cold). A history of the peer is what the agent has "
        "reported of itself."
    )
    more = (
        f"With {once['tasks']} tasks at once on {once['replicas']} replicas, the larger one has "
        f"{once['rss_mib']:.0f} MiB ({once['idle_mib']:.0f} MiB before), and both take {once['core_share']:.1%} of a "
        f"core ({once['idle_core_share']:.1%} before). One of two replicas was killed with {kill['lost']} of "
        f"{kill['tasks']} tasks: the other one had all after {kill['seconds']:.2f} s, and {kill['typed_again']} "
        "prompts were typed again."
    )
    head = ("what", "p50 ms", "p95 ms", "max ms", "times")
    return f"## The fleet\n\n{note}\n\n{table(head, [*listing, *tools, *tasks, *histories])}\n\n{more}"


def _row(seconds: list[float]) -> tuple[str, str, str, str]:
    return f"{ms(seconds, 0.5):.1f}", f"{ms(seconds, 0.95):.1f}", f"{ms(seconds, 1.0):.1f}", str(len(seconds))
