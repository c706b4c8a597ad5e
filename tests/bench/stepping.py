"""Turns of many steps, and where their calls are counted: a model behind HTTP, a tool that may not be called again."""

import json
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.processes import Process, running
from tests.chaos.effects import read_effects

TEAM = Path(__file__).parent / "stepper"
AGENT = "stepper"


@dataclass(frozen=True)
class Counted:
    """The model and the downstream server; `calls` and `effects` are where they write down what they are asked."""

    model: Process
    counter: Process
    calls: Path
    effects: Path

    @property
    def variables(self) -> dict[str, str]:
        """Where a worker that hosts the team finds them."""
        return {
            "BENCH_MODEL_URL": f"http://127.0.0.1:{self.model.port}/v1",
            "BENCH_COUNTER_URL": f"http://127.0.0.1:{self.counter.port}/mcp",
        }

    def times(self) -> tuple[Counter[str], Counter[str]]:
        """How often each call of the model was made, and each of the tool."""
        calls, effects = (Counter(it.key for it in read_effects(path)) for path in (self.calls, self.effects))
        return calls, effects


@contextmanager
def counted(folder: Path, *, model_is_counted: bool = True) -> Generator[Counted]:
    """Start both."""
    folder.mkdir()
    calls, effects = folder / "calls", folder / "effects"
    counts = (str(calls),) if model_is_counted else ()
    with (
        running("model", folder, "tests.model_server", "{port}", *counts) as model,
        running("counter", folder, "tests.chaos.counter", "{port}", str(effects), str(calls)) as counter,
    ):
        yield Counted(model.wait_for(""), counter.wait_for(""), calls, effects)


def starting_worker(
    folder: Path, nats_url: str, counts: Counted, variables: Mapping[str, str], *, slots: int = 64
) -> AbstractContextManager[Process]:
    """A worker that hosts the team and has just been started."""
    return stack.starting_worker(folder, nats_url, {**counts.variables, **variables}, slots=slots, team=TEAM)


def params(key: str, steps: int, model_seconds: float) -> dict[str, Any]:
    """A call of the agent: in each step the model takes its time and asks for the tool, and at last it answers."""
    lines = [key]
    for step in range(1, steps + 1):
        arguments = json.dumps({"key": f"{key}/{step}.1", "seconds": 0})
        lines += [f"/sleep {model_seconds}", f"/tool counter/count {arguments}"]
    lines += [f"/sleep {model_seconds}", f"/say {key} done"]
    return {"name": AGENT, "arguments": {"message": "\n".join(lines)}, "_meta": {"progressToken": key}}
