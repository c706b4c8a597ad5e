"""What to run: a process as a value, before there is one.

`prepare` is called for every start, not once, so a restarted process may get another port and finds its files
written again.
"""

import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from pallas_cli.processes.environment import of_a_server

type Probe = Callable[[], Awaitable[bool]]
"""Answers whether the process can be used now. It never raises."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of one process.

    `env` is its whole environment. `rootless` is for servers that refuse to be root.
    """

    command: tuple[str, ...]
    ready: Probe
    env: Mapping[str, str] = field(default_factory=of_a_server, repr=False)
    rootless: bool = False
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process that the stack keeps running.

    `name` is the key in the ready file, `number` (from 1) tells replicas apart. It is started once everything that
    `needs` names can be used; a name that is not of this stack runs elsewhere and is not waited for. Stages stop in
    descending order. Inside a stage the order of the specs is the order of the stop signals.
    """

    name: str
    number: int
    stage: int
    prepare: Callable[[], Awaitable[Launch]]
    needs: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The name of this one process, as its log file and the messages have it."""
        return f"{self.name}-{self.number}"
