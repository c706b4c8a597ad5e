"""What happens in one attempt, as events, and what its agents share."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fast_agent_worker.turns.journal import AgentJournal
from fast_agent_worker.turns.places import HERE, Here
from pallas_contracts.errors import Superseded
from pallas_contracts.turns import InputRequired, ToolCompleted, ToolFailed, ToolProgress, ToolStarted
from pallas_hosting.definition import TurnScope as SharedScope
from pallas_hosting.metered import UNWATCHED, Watching
from pallas_teams import AgentConfig
from pallas_turns.runtime import Failed


class Stopped(Exception):
    """The run ends here: fast-agent may make a tool's error of that, so the scope keeps why."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A call of a tool or of an agent that has no answer yet, and where the turn was before."""

    started: ToolStarted
    began: float
    before: Here


@dataclass(slots=True)
class TurnScope(SharedScope):
    """Belongs to one attempt.

    `made_of` has the digests of the project's agents. `asks` is the agent that may ask a person; None: nobody can be
    asked. `lost` is set once the attempt has been superseded, `asked` once a person has to be asked, `failed` once the
    turn cannot go on, `model_error` is what the last call of a model has raised; `over`: nobody waits for the run.
    """

    config: AgentConfig = field(kw_only=True)
    made_of: Mapping[str, str] = field(default_factory=dict[str, str])
    watching: Watching = UNWATCHED
    asks: str | None = None
    lost: Superseded | None = None
    asked: InputRequired | None = None
    failed: Failed | None = None
    model_error: BaseException | None = None
    over: bool = False
    journal: AgentJournal = field(init=False)
    _kept: set[str] = field(default_factory=set[str])
    _numbers: Counter[str] = field(default_factory=Counter[str])
    _open: dict[str, _Open] = field(default_factory=dict[str, _Open])
    _called: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.journal = AgentJournal(self.steps)

    def check(self) -> None:
        """Check that the run may go on.

        Raises:
            Superseded, JournalUnusable, Stopped, CancelledError: it may not.
        """
        if self.over:
            raise asyncio.CancelledError
        if self.lost is not None:
            raise self.lost
        self.steps.check_usable()
        self.failed = self.failed or self.exhausted()
        if self.asked or self.failed:
            raise Stopped

    def next_model(self, agent: str) -> str:
        """The place of an agent's next call of its model."""
        here = HERE.get()
        return self._next(here.prefix if agent == here.agent else f"{here.prefix}{agent}/")

    def next_member(self) -> str:
        """The place of the next agent that a workflow calls."""
        return self._next(f"{HERE.get().prefix}w")

    def next_tool(self) -> str:
        """The place of a tool that is called by code and not by a model."""
        return self._next(f"{HERE.get().prefix}t")

    def _next(self, prefix: str) -> str:
        self._numbers[prefix] += 1
        return f"{prefix}{self._numbers[prefix]}"

    async def tool_starting(self, started: ToolStarted) -> None:
        """A tool is about to be called: publish that and, for a leaf, wait until it is stored.

        Raises:
            Superseded: the attempt has been superseded; the tool must not be called.
        """
        try:
            if started.leaf:
                await self.steps.tool_starting(started)
            else:
                self.emit(started)
        except Superseded as error:
            self.lost = error
            raise
        self._called.add(started.call)
        self._open[started.call] = _Open(started, time.perf_counter(), HERE.get())

    def ended(self, call: str, code: str = "") -> None:
        """Emit the end of a call, with the code of its failure."""
        opened = self._open.pop(call, None)
        if opened is None:
            return
        HERE.set(opened.before)
        server, tool, took = opened.started.server, opened.started.tool, milliseconds(opened.began)
        if code:
            self.emit(ToolFailed(call=call, server=server, tool=tool, duration_ms=took, code=code))
        else:
            self.emit(ToolCompleted(call=call, server=server, tool=tool, duration_ms=took))

    def entered(self, call: str, server: str, tool: str, agent: str) -> str:
        """Emit that an agent is called, and go on inside that call, until `ended`. Returns its place."""
        started = ToolStarted(call=call, server=server, tool=tool, leaf=False)
        self.emit(started)
        self._called.add(call)
        self._open[call] = _Open(started, time.perf_counter(), HERE.get())
        HERE.set(Here(agent, f"{call}."))
        return call

    def unknown(self, started: ToolStarted) -> None:
        """Emit that it is not known what became of a tool that an earlier attempt has started."""
        self._called.add(started.call)
        server, tool = started.server, started.tool
        self.emit(ToolFailed(call=started.call, server=server, tool=tool, duration_ms=0.0, code="outcome_unknown"))

    def refused(self, call: str, agent: str, name: str) -> None:
        """Emit the failure of a tool that does not exist, unless the call was made."""
        if call in self._called:
            return
        server, _, tool = name.partition("__")
        server, tool = (server, tool) if tool else (agent, server)
        self.emit(ToolStarted(call=call, server=server, tool=tool, leaf=False))
        self.emit(ToolFailed(call=call, server=server, tool=tool, duration_ms=0.0, code="unknown_tool"))

    def progress(self, call: str, progress: float, total: float | None, message: str | None) -> None:
        """Relay the progress of a server's tool. That of fast-agent's own loops is left out."""
        opened = self._open.get(call)
        if opened is not None and opened.started.leaf:
            server, tool = opened.started.server, opened.started.tool
            self.emit(
                ToolProgress(call=call, server=server, tool=tool, progress=progress, total=total, message=message)
            )

    async def keep(self, call: str, tool: str, result: Any) -> None:
        """Add the result of a tool to the journal, once."""
        if call not in self._kept:
            self._kept.add(call)
            await self.journal.add(call, tool, result)


def milliseconds(began: float) -> float:
    """Milliseconds since a moment of `time.perf_counter`."""
    return round((time.perf_counter() - began) * 1000, 3)
