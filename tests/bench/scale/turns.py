"""The messages of a turn, in the sizes that the benchmark's agents store. Bodies are filler, headers are real."""

from dataclasses import dataclass

from tests.bench.scale.wire import message

from pallas_bus.headers import EXPECTED, EXPECTED_SUBJECT, time_to_live

REQUESTED, CLAIM, EVENT, CONTENT, KEPT, OUTCOME = 600, 400, 950, 1550, 450, 210
"""Bytes of a body, as a turn of the benchmark's agent with a model was found to have."""

_TTL = time_to_live(900.0)
_TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


@dataclass(frozen=True, slots=True)
class Shape:
    """A turn: `steps` times an event and a content message between its claim and its end."""

    steps: int

    @property
    def stored(self) -> int:
        """Messages that the log stores of it; the queue stores one more."""
        return 4 + 2 * self.steps


def requested(turn: str) -> bytes:
    """The turn's message for the queue. Its body begins with the turn's id."""
    headers = {"Nats-Msg-Id": f"turn.requested:{turn}", **_TRACE}
    subject = f"pallas.v1.turn.requested.bench.agent.caller.{turn}"
    return message(subject, turn.encode().ljust(REQUESTED), headers, reply=f"r.{turn}.q")


def claim(turn: str) -> bytes:
    """The first claim."""
    return message(_on("claim", turn), bytes(CLAIM), {EXPECTED: "0", **_TRACE}, reply=f"r.{turn}.c")


def work(shape: Shape, turn: str, fence: int) -> bytes:
    """Everything between claim and outcome, in the order of `TurnWriter`; the answer is fenced and confirmed."""
    step = message(_on("content", turn), bytes(CONTENT), {**_TRACE, **_TTL})
    step += message(_on("event", turn), bytes(EVENT), _TRACE)
    named = {"Nats-Msg-Id": f"kept.request:{turn}:1", **_TRACE, **_TTL}
    kept = message(f"pallas.v1.kept.request.bench.agent.{turn}", bytes(KEPT), named)
    fenced = {**_fence(turn, fence), **_TTL}
    return step * shape.steps + kept + message(_on("content", turn), bytes(CONTENT), fenced, reply=f"r.{turn}.a")


def outcome(turn: str, fence: int) -> bytes:
    """The outcome, fenced and confirmed."""
    headers = {**_fence(turn, fence), "Nats-Msg-Id": f"turn.outcome:{turn}"}
    return message(_on("outcome", turn), bytes(OUTCOME), headers, reply=f"r.{turn}.o")


def _fence(turn: str, position: int) -> dict[str, str]:
    return {EXPECTED: str(position), EXPECTED_SUBJECT: _on("claim", turn), **_TRACE}


def _on(kind: str, turn: str) -> str:
    return f"pallas.v1.turn.{kind}.bench.agent.{turn}"
