"""Descriptions of processes to start.

`prepare` is called before every start, so a restarted process may get another port, and its files are written again.
"""

import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from pallas_cli.processes.environment import server_environment

type Probe = Callable[[], Awaitable[bool]]
"""Returns whether the process is ready. It never raises."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of one process.

    `env` is the whole environment. `rootless` is for servers that refuse to run as root. A
    process whose probe `broken` says so for long cannot mend itself, and is started again.
    """

    command: tuple[str, ...]
    ready: Probe
    broken: Probe | None = None
    env: Mapping[str, str] = field(default_factory=server_environment, repr=False)
    rootless: bool = False
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process that the stack keeps running.

    `name` is the key in the ready file; `number` (from 1) numbers the replicas. The process is started when all
    processes in `needs` are ready; names that are not in this stack run elsewhere and are ignored. Stages stop in
    descending order. Within a stage, stop signals are sent in the order of the specs.
    """

    name: str
    number: int
    stage: int
    prepare: Callable[[], Awaitable[Launch]]
    needs: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The name of this process in messages, and of its log file."""
        return f"{self.name}-{self.number}"
