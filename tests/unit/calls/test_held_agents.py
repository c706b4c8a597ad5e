"""Calls of an agent that no worker takes turns of are refused, and not queued."""

import pytest

from pallas_contracts.agents import WorkerPresence
from pallas_contracts.message import utc_now
from pallas_turns.admission import held

AGENT = "demo.harper"


def workers(*held_and_agents: tuple[str | None, str]) -> list[WorkerPresence]:
    """The presences of workers: why each is held, and its agent."""
    named = [(f"w{number}", why, agent) for number, (why, agent) in enumerate(held_and_agents)]
    return [WorkerPresence(worker=name, slots=1, agents=(agent,), held=why, at=utc_now()) for name, why, agent in named]


@pytest.mark.parametrize(
    ("present", "refused"),
    [
        ([], False),
        ([(None, AGENT)], False),
        ([("restored", AGENT)], True),
        ([("restored", AGENT), ("restored", AGENT)], True),
        ([("restored", AGENT), (None, AGENT)], False),
        ([("restored", AGENT), (None, "demo.other")], True),
        ([("restored", "demo.other")], False),
    ],
)
def test_a_call_is_refused_only_if_every_worker_of_its_agent_is_held(
    present: list[tuple[str | None, str]], refused: bool
) -> None:
    refusal = held(workers(*present), "demo", "harper")
    assert (refusal is not None) == refused
    if refusal is not None:
        assert (refusal.code, refusal.limit) == ("busy", "hold")
