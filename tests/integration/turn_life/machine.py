"""The life of a turn as a state machine: everything that can happen to it, in any order, against a real broker.

The machine keeps a model of what the log has to be: the claims in order, who has had effects, how it ended. After each
step the log is read and has to be exactly that.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.builders import agent_definition, turn_requested
from tests.integration.bus.turns import read_to_end
from tests.integration.turn_life.script import Attempt, ScriptedWorker, SlowDelivery, pull
from tests.integration.turn_life.stage import Stage
from tests.waiting import PATIENCE, soon

from pallas_bus import kv
from pallas_contracts.agents import AgentDefinition, Limits
from pallas_contracts.catalog import WORKERS
from pallas_contracts.errors import Superseded
from pallas_contracts.turns import CancelRequested, Claimed, TurnOutcome, TurnRequested
from pallas_turns.cancel import withdraw_turn
from pallas_turns.claims import TurnRef, request_cancel
from pallas_turns.feed import FeedItem, TurnFeed
from pallas_turns.queue import ensure_consumer, submit

CANCEL = "cancel"
MAX_ATTEMPTS = 3


@dataclass(eq=False)
class Hand:
    """A delivery that a worker executes: `task` handles the delivery, `attempt` is its execution."""

    worker: ScriptedWorker
    task: asyncio.Task[None]
    attempt: Attempt

    @property
    def number(self) -> int:
        """Which attempt it is."""
        return self.attempt.turn.attempt


@dataclass
class Model:
    """The expected log. A claim is an attempt with its worker; a cancel has no worker."""

    safe: bool
    claims: list[tuple[int | str, str]] = field(default_factory=list[tuple[int | str, str]])
    started: list[int] = field(default_factory=list[int])
    outcome: tuple[str, str | None] | None = None

    @property
    def last(self) -> int | str | None:
        """The last claim: an attempt, a cancel, or none yet."""
        return self.claims[-1][0] if self.claims else None

    @property
    def cancelled(self) -> bool:
        """Whether the turn is cancelled."""
        return self.last == CANCEL

    def end(self, status: str, code: str | None = None) -> None:
        """Record the outcome, unless there is one."""
        if self.outcome is None:
            self.outcome = (status, code)


class TurnLife(RuleBasedStateMachine):
    """One turn, two places for workers, two gateways. A worker that stands still is one that no rule picks."""

    stage: Stage
    team: str
    definition: AgentDefinition
    asked: TurnRequested
    position: int
    model: Model
    workers: list[ScriptedWorker]
    cancels: bool = False
    left: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.hands: list[Hand] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.deliveries: list[SlowDelivery] = []
        self.attempts: list[Attempt] = []
        self.present: list[str] = []
        self.feeds: list[TurnFeed] = []

    @initialize(safe=st.sampled_from((False, False, True)), cancels=st.sampled_from((False, False, True)))
    def request(self, safe: bool, cancels: bool) -> None:
        """A gateway puts the turn into its queue, and follows it. Not every caller cancels: it ends too many lives."""
        self.cancels = cancels
        self.do(self._request(safe))

    async def _request(self, safe: bool) -> None:
        self.team = self.stage.new_name("t")
        self.definition = agent_definition(
            self.team, retry="safe" if safe else "unsafe", limits=Limits(max_attempts=MAX_ATTEMPTS)
        )
        self.asked = turn_requested(self.team)
        self.model = Model(safe)
        self.workers = [self._new_worker(), self._new_worker()]
        for worker in self.workers:
            await self._appear(worker)
        await ensure_consumer(self.stage.bus, self.team, "harper", max_concurrency=None)
        self.feeds = [self.stage.feeds.open(TurnRef.of(self.asked))]
        self.position = (await submit(self.stage.bus, self.asked)).seq

    def _new_worker(self) -> ScriptedWorker:
        return ScriptedWorker(self.stage.bus, self.stage.new_name(), self.definition)

    async def _appear(self, worker: ScriptedWorker) -> None:
        self.present.append(worker.name)
        await kv.put(self.stage.bus, WORKERS, self.stage.presence(worker.name), worker=worker.name)

    def do(self, work: Coroutine[Any, Any, object]) -> None:
        """Carry out one step, while everything else stands still before and after."""
        self.stage.runner.run(soon(work, PATIENCE))

    @precondition(lambda self: not self.left)
    @rule(cursor=st.integers(0, 1))
    def deliver(self, cursor: int) -> None:
        """The broker delivers the turn to a worker, if it is there to be delivered."""
        self.do(self._deliver(self.workers[cursor]))

    async def _deliver(self, worker: ScriptedWorker) -> None:
        delivery = await pull(self.stage.bus, self.team, "harper")
        if delivery is None:
            return
        self.deliveries.append(delivery)
        if self.asked.turn_id in worker.running.turns:
            await worker.decoding.take("agent", delivery)
            return
        runs = self._taken(worker)
        task, attempt = await worker.take(delivery)
        self.tasks.append(task)
        assert (attempt is not None) == runs, f"runs: {attempt is not None}, by the model: {runs}"
        if attempt is not None:
            self.attempts.append(attempt)
            self.hands.append(Hand(worker, task, attempt))

    def _taken(self, worker: ScriptedWorker) -> bool:
        """What a worker makes of the turn, by the rules of the log. Returns whether it executes it."""
        model, last = self.model, self.model.last
        if model.outcome is not None:
            return False
        if isinstance(last, str):
            model.end("cancelled", "cancelled")
            return False
        number, lost = (last or 0) + 1, False
        if last is not None:
            holder = model.claims[-1][1]
            tool = bool(model.started) and not model.safe
            lost = tool or number > MAX_ATTEMPTS
            if lost and holder != worker.name and holder in self.present:
                return False
        model.claims.append((number, worker.name))
        if lost:
            model.end("failed", "worker_lost")
        return not lost

    @precondition(lambda self: self.hands)
    @rule(pick=st.integers(0, 9))
    def report(self, pick: int) -> None:
        """An attempt emits an event, whether it is superseded or not."""
        self.do(self._report(self._pick(pick)))

    async def _report(self, hand: Hand) -> None:
        hand.attempt.report()

    @precondition(lambda self: self.hands)
    @rule(pick=st.integers(0, 9))
    def use_tool(self, pick: int) -> None:
        """An attempt starts a tool; the log lets it only while it has the turn."""
        self.do(self._use_tool(self._pick(pick)))

    async def _use_tool(self, hand: Hand) -> None:
        if self.model.last == hand.number:
            await hand.attempt.use_tool(safe=self.model.safe)
            self.model.started.append(hand.number)
            return
        with pytest.raises(Superseded):
            await hand.attempt.use_tool(safe=self.model.safe)
        await self._end(hand, lambda: hand.attempt.ended.set_exception(Superseded("as it heard")))

    @precondition(lambda self: self.hands)
    @rule(pick=st.integers(0, 9), well=st.booleans())
    def conclude(self, pick: int, well: bool) -> None:
        """An attempt comes to its end; the log takes its outcome only while it has the turn."""
        hand = self._pick(pick)
        if self.model.last == hand.number:
            self.model.end("completed") if well else self.model.end("failed", "model_failed")
        self.do(self._end(hand, hand.attempt.answer if well else hand.attempt.fail))

    async def _end(self, hand: Hand, how: Callable[[], None]) -> None:
        """The attempt returns, and its worker does what follows."""
        if self.model.cancelled:
            self.model.end("cancelled", "cancelled")
        self.hands.remove(hand)
        how()
        await hand.task

    @precondition(lambda self: self.hands)
    @rule(cursor=st.integers(0, 1))
    def receive_claims(self, cursor: int) -> None:
        """A worker gets the claims that it has missed, so a superseded attempt stops."""
        self.do(self._receive_claims(self.workers[cursor]))

    async def _receive_claims(self, worker: ScriptedWorker) -> None:
        mine = [hand for hand in self.hands if hand.worker is worker and self.model.last != hand.number]
        if mine and self.model.cancelled:
            self.model.end("cancelled", "cancelled")
        await worker.running.reread(worker.bus)
        for hand in mine:
            self.hands.remove(hand)
            await hand.task

    @precondition(lambda self: self.hands)
    @rule(cursor=st.integers(0, 1))
    def die(self, cursor: int) -> None:
        """A worker dies at any point, and another replaces it."""
        dead, self.workers[cursor] = self.workers[cursor], self._new_worker()
        self.hands = [hand for hand in self.hands if hand.worker is not dead]
        self.do(self._appear(self.workers[cursor]))

    @precondition(lambda self: self.present)
    @rule(pick=st.integers(0, 9))
    def expire(self, pick: int) -> None:
        """The presence of a worker expires: it is dead, or cut off."""
        name = self.present[pick % len(self.present)]
        self.present.remove(name)
        self.do(kv.delete(self.stage.bus, WORKERS, worker=name))

    @precondition(lambda self: self.deliveries and not self.left)
    @rule(pick=st.integers(0, 9))
    def redeliver(self, pick: int) -> None:
        """A gateway gives any delivery back, or its time is up: rightly or not, late or twice."""
        self.do(self.deliveries[pick % len(self.deliveries)].nak())

    @precondition(lambda self: self.deliveries and not self.left)
    @rule(cursor=st.integers(0, 1))
    def take_over(self, cursor: int) -> None:
        """Both at once, as when a worker is thought to be lost: the last delivery is given back and made again."""
        self.do(self.deliveries[-1].nak())
        self.do(self._deliver(self.workers[cursor]))

    @precondition(lambda self: any(each.settling for each in self.deliveries))
    @rule(pick=st.integers(0, 9))
    def acknowledge(self, pick: int) -> None:
        """An acknowledgement reaches the broker at last."""
        waiting = [delivery for delivery in self.deliveries if delivery.settling]
        self.do(self._acknowledge(waiting[pick % len(waiting)]))

    async def _acknowledge(self, delivery: SlowDelivery) -> None:
        await delivery.settling.pop()()

    @precondition(lambda self: self.cancels)
    @rule()
    def cancel(self) -> None:
        """The caller cancels, or does it again."""
        self.do(self._cancel())

    async def _cancel(self) -> None:
        first = await request_cancel(self.stage.other, TurnRef.of(self.asked), "enough")
        assert first != self.model.cancelled
        if first:
            self.model.claims.append((CANCEL, ""))

    @precondition(lambda self: self.cancels)
    @rule()
    def withdraw(self) -> None:
        """The gateway takes the turn out of its queue, if it was cancelled before anybody had it."""
        if self.model.claims and self.model.claims[0][0] == CANCEL:
            self.model.end("cancelled", "cancelled")
        self.do(withdraw_turn(self.stage.other, self.asked, self.position))

    @rule()
    def follow(self) -> None:
        """Another gateway follows the turn, from its beginning."""
        self.do(self._follow())

    async def _follow(self) -> None:
        self.feeds.append(await self.stage.other_feeds.resume(TurnRef.of(self.asked)))

    @invariant()
    def the_log_is_the_model(self) -> None:
        """Claims are in order, tools belong to the last claim, one outcome, and a turn outside the queue has ended."""
        self.do(self._compare())

    async def _compare(self) -> None:
        model = self.model
        log = await self.stage.read(self.asked.turn_id)
        assert log.claims == [claim for claim, _ in model.claims]
        assert log.started == model.started
        assert log.outcomes == ([model.outcome] if model.outcome is not None else [])
        assert sum(attempt.effects for attempt in self.attempts) == len(model.started)
        if not model.safe:
            assert len({attempt.turn.attempt for attempt in self.attempts if attempt.effects}) <= 1
        self.left = not await self.stage.is_queued(self.position)
        if self.left:
            assert model.outcome is not None, "the turn left its queue without an outcome"

    def _pick(self, pick: int) -> Hand:
        return self.hands[pick % len(self.hands)]

    def teardown(self) -> None:
        """At the end, a worker without further faults brings the turn to its end."""
        if hasattr(self, "model"):
            self.do(self._finish())

    async def _finish(self) -> None:
        for name in self.present:
            await kv.delete(self.stage.bus, WORKERS, worker=name)
        self.present.clear()
        alone = self._new_worker()
        for delivery in self.deliveries:
            await delivery.nak()
        while await self.stage.is_queued(self.position):
            await self._deliver(alone)
            for hand in [hand for hand in self.hands if hand.worker is alone]:
                self.model.end("completed")
                await self._end(hand, hand.attempt.answer)
            for delivery in self.deliveries:
                if delivery.settling:
                    await self._acknowledge(delivery)
        assert self.model.outcome is not None
        await self._compare()
        for feed in self.feeds:
            self._check(await read_to_end(feed))
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _check(self, messages: list[FeedItem]) -> None:
        """A feed has attempts in order, all content of the concluding one, and one outcome."""
        *before, outcome = messages
        assert isinstance(outcome, TurnOutcome)
        assert (outcome.status, outcome.code) == self.model.outcome
        assert not any(isinstance(each, TurnOutcome) for each in before)
        numbers = [each.attempt for each in before if isinstance(each, Claimed)]
        assert numbers == sorted(set(numbers))
        if outcome.status == "cancelled":
            return
        last = max((cursor for cursor, each in enumerate(before) if isinstance(each, Claimed)), default=0)
        events = [each.seq for each in before[last:] if not isinstance(each, Claimed | CancelRequested | TurnOutcome)]
        assert events == list(range(1, outcome.events + 1))
