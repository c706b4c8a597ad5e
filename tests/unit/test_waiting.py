"""The stopwatch of the tests: which time counts and which does not."""

import asyncio
import threading
import time
from contextlib import nullcontext

import pytest
from tests import waiting
from tests.waiting import Stopwatch, timing, within, within_cpu


class Machine:
    """What a process sees of its machine: the time, how much of it was its own, and how long it waited to run."""

    def __init__(self) -> None:
        self.now = self.used = self.delay = 0.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.used


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose times the test sets."""
    machine = Machine()
    monkeypatch.setattr(waiting, "time", machine)
    monkeypatch.setattr(waiting, "run_delay", lambda: machine.delay)
    return machine


def test_time_spent_waiting_counts(machine: Machine) -> None:
    watch = Stopwatch()
    for _ in range(200):
        machine.now += 0.005
        watch.tick()
    assert watch.seconds == pytest.approx(1.0)


def test_time_in_which_the_process_stood_still_does_not_count(machine: Machine) -> None:
    watch = Stopwatch()
    machine.now += 2.0
    watch.stood_still += 2.0
    watch.tick()
    assert watch.seconds <= 0.01


def test_time_in_which_others_have_the_processor_does_not_count(machine: Machine) -> None:
    watch = Stopwatch()
    machine.now += 2.0
    machine.delay += 2.0
    watch.tick()
    assert watch.seconds <= 0.01


@pytest.mark.parametrize(("runs", "is_fast"), [([0.9], True), ([1.0, 2.0, 0.9], True), ([1.0, 1.0, 1.0, 0.0], False)])
def test_one_of_three_runs_has_to_be_fast(machine: Machine, runs: list[float], is_fast: bool) -> None:
    def work() -> None:
        machine.used += runs.pop(0)

    with nullcontext() if is_fast else pytest.raises(AssertionError, match=r"took 1\.000 s"):
        within_cpu(1.0, work)


async def test_a_call_that_blocks_the_event_loop_counts() -> None:
    async with timing() as watch:
        asyncio.get_running_loop().call_soon(time.sleep, 0.3)
        await asyncio.sleep(0)
    assert 0.25 < watch.seconds < 0.5


def test_a_stopped_process_measures_how_long_it_stood_still(machine: Machine) -> None:
    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            machine.now += 2.0
            self.set()
            return True

    watch = Stopwatch()
    watch.look_for_standstills(Ended())
    assert watch.stood_still == pytest.approx(1.99)


def test_processor_time_of_the_process_counts(machine: Machine) -> None:
    watch = Stopwatch()
    machine.now += 2.0
    machine.used += 1.5
    watch.stood_still += 0.5
    watch.tick()
    assert watch.seconds == 1.5


async def test_a_block_that_exceeds_its_time_fails() -> None:
    async with within(10.0):
        await asyncio.sleep(0)
    with pytest.raises(AssertionError, match="took"):
        async with within(0.02):
            await asyncio.sleep(0.2)
