"""The platform side of the gateway: turns over the bus, with what is counted about them."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from agent_gateway.handshake.calls import remember_call
from agent_gateway.handshake.model import FollowedCall
from agent_gateway.mcp.get_health import get_health
from agent_gateway.metrics import Metrics
from pallas_bus.transport import kv
from pallas_bus.transport.ask import ask
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.feeds import TurnFeeds
from pallas_bus.turnlog.lookup import Waiting
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_calls.admission.admit_turn import AdmitTurn
from pallas_calls.admission.failed_agents import failed_to_start
from pallas_calls.admission.queue_positions import QueuePosition
from pallas_calls.cancel_turn import cancel_turn
from pallas_calls.keyed.keyed_turns import KeyedTurns
from pallas_calls.model import Call, Refusal, TurnEnd
from pallas_calls.relay_turn import Listener, relay_turn
from pallas_calls.resume_turn import resume_turn
from pallas_calls.submit_turn import Submitted, make_request, submit_turn
from pallas_calls.whole_answer import whole_answer
from pallas_calls.worker_liveness import WorkerLiveness
from pallas_contracts.agents import AgentDefinition, AgentRead, JsonObject, Limits, ToolDefinition, WorkerPresence
from pallas_contracts.catalog import READ_AGENT, SESSIONS, LegacySession
from pallas_contracts.health import AgentHealth
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import Claimed, TurnRequested


@dataclass
class Calls:
    """`Turns` over NATS. `draining` means that closed streams are our doing, not the callers'."""

    bus: Bus
    feeds: TurnFeeds
    healths: Table[AgentHealth]
    sessions: Table[LegacySession]
    metrics: Metrics
    admission: AdmitTurn
    workers: WorkerLiveness
    presences: Table[WorkerPresence]
    key: LogKey
    keyed: KeyedTurns
    draining: bool = False

    def request(
        self, definition: AgentDefinition, tool: ToolDefinition, arguments: JsonObject, call: Call
    ) -> TurnRequested:
        """Make the turn that a checked call asks for."""
        return make_request(self.key, definition, tool, arguments, call)

    def following(self, request: TurnRequested) -> AbstractContextManager[None]:
        """A caller follows the turn inside the block: to be entered before it is submitted."""
        return self.keyed.following(request)

    async def submit(
        self, request: TurnRequested, limits: Limits, before: Callable[[], Awaitable[None]]
    ) -> Submitted | Refusal:
        """Put the turn into its queue, after `before()`, unless its agent has failed or that is over a limit.

        A turn that its key has made already is followed instead.
        """
        return await self.keyed.submit(request, limits, before, lambda: self._submit(request, limits, before))

    async def _submit(
        self, request: TurnRequested, limits: Limits, before: Callable[[], Awaitable[None]]
    ) -> Submitted | Refusal:
        submitted = failed_to_start(self.presences, request.team, request.agent)
        submitted = submitted or await self.admission.admit_turn(request, limits)
        if submitted is None:
            entering = self.admission.places.entering(request.team, request.agent, request.principal.token)
            with self.metrics.in_flight.track_inprogress(), entering:
                await before()
                submitted = await submit_turn(self.bus, self.feeds, request)
        if isinstance(submitted, Refusal):
            self.metrics.call_refused(request, submitted)
        return submitted

    async def relay(self, submitted: Submitted, listener: Listener | None) -> TurnEnd:
        """Follow the turn to its end."""
        request = submitted.request
        try:
            with (
                self.metrics.in_flight.track_inprogress(),
                self._place(submitted) as place,
                self.workers.holding(request.turn_id) as taken,
            ):

                def claimed(claim: Claimed) -> None:
                    place.leave()
                    taken(claim)

                def cancelled() -> None:
                    self.bus.spawn(self._withdraw(request, submitted.position))

                relayed = self.metrics.relaying(TurnRef.of(request))
                end = await relay_turn(submitted.feed, listener, place.ahead, claimed, cancelled, relayed)
            end = await whole_answer(self.bus, end)
        finally:
            self.feeds.close(submitted.feed)
        return await self.keyed.explain(request, end)

    async def resume(self, call: FollowedCall, behind: Cursor, listener: Listener) -> TurnEnd | None:
        """Follow a turn again, behind what was told of it, to its end. None: nothing is known of it any more."""
        ref, progress = call.ref, call.progress_token is not None
        self.metrics.stream_resumed(ref)
        resumed = await resume_turn(self.bus, self.feeds, ref, call.caller, behind, progress=progress)
        if resumed is None:
            return None
        waiting = resumed.waiting

        def cancelled() -> None:
            if waiting is not None:
                self.bus.spawn(self._withdraw(waiting.request, waiting.position))

        try:
            with (
                self.metrics.in_flight.track_inprogress(),
                nullcontext() if waiting is None else self._place(waiting) as place,
                self.workers.holding(ref.turn_id) as taken,
                self.keyed.followers.following(ref),
            ):

                def claimed(claim: Claimed) -> None:
                    if place is not None:
                        place.leave()
                    taken(claim)
                    if claim.digest is not None:
                        self.keyed.followers.announce(ref)

                async def ahead() -> int | None:
                    return await place.ahead() if place is not None else None

                relayed = self.metrics.relaying(ref)
                end = await relay_turn(resumed.feed, listener, ahead, claimed, cancelled, relayed)
            return await whole_answer(self.bus, end)
        finally:
            self.feeds.close(resumed.feed)

    def _place(self, queued: Submitted | Waiting) -> AbstractContextManager[QueuePosition]:
        request = queued.request
        return self.admission.places.place(request.team, request.agent, request.principal.token, queued.position)

    def abandon(self, request: TurnRequested, limits: Limits, position: int) -> None:
        """The caller has closed its stream: cancel the turn, or leave it if it has a key; unless we go."""
        if self.draining:
            return
        if request.digest is not None:
            self.keyed.leave(request, limits, position)
        else:
            self.bus.spawn(self._cancel(request, position))

    async def _cancel(self, request: TurnRequested, position: int) -> None:
        await cancel_turn(self.bus, TurnRef.of(request), "the caller closed the stream")
        await self._withdraw(request, position)

    async def _withdraw(self, request: TurnRequested, position: int) -> None:
        await withdraw_turn(self.bus, request, position, self.metrics.turns.ended)

    async def remember(self, session: str, request: str, ref: TurnRef) -> None:
        """Keep which turn a handshake-era request is."""
        await remember_call(self.bus, session, request, ref)

    async def set_log_level(self, session: str, level: str) -> None:
        """Keep the least level of log messages that a handshake-era session wants."""
        await kv.put(self.bus, SESSIONS, LegacySession(log_level=level), session=session)

    def log_level(self, session: str) -> str | None:
        """The level that the session has set."""
        known = self.sessions.get(session)
        return known.log_level if known else None

    async def read(self, question: AgentRead) -> JsonObject:
        """Ask an agent's owner for a prompt, resource or completion."""
        answer = await ask(self.bus, READ_AGENT, question, team=question.team, agent=question.agent)
        return answer.result

    async def health(self, definition: AgentDefinition) -> str:
        """The agent's health, as the JSON of the contract."""
        return await get_health(self.bus, self.healths, definition)
