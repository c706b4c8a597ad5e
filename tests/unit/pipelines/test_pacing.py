"""How many calls run at a time, and how often one may begin."""

import asyncio

import pytest

from pipelines.running.nodes import Pacing, PrioritySlots


async def test_a_slot_goes_to_the_highest_priority_and_then_to_the_first() -> None:
    slots, order, held = PrioritySlots(1), list[str](), asyncio.Event()

    async def use(name: str, priority: int) -> None:
        async with slots.slot(priority):
            order.append(name)
            await held.wait()

    async with asyncio.TaskGroup() as tasks:
        for name, priority in (("first", 0), ("low", 20), ("high", 80), ("also high", 80), ("normal", 50)):
            tasks.create_task(use(name, priority))
            await asyncio.sleep(0)
        held.set()
    assert order == ["first", "high", "also high", "normal", "low"]


async def test_a_cancelled_call_gives_its_slot_back_even_if_it_has_just_got_it() -> None:
    slots, entered = PrioritySlots(1), list[int]()

    async def use(number: int) -> None:
        async with slots.slot(0):
            entered.append(number)

    async with slots.slot(0):
        waiting = [asyncio.create_task(use(number)) for number in range(3)]
        await asyncio.sleep(0)
    waiting[0].cancel()  # the slot is its own, and it has not run since
    await asyncio.wait(waiting)
    assert entered == [1, 2]
    async with asyncio.timeout(1), slots.slot(0):
        pass


async def test_throttled_calls_begin_in_their_order_and_not_too_often() -> None:
    pacing, clock = Pacing(), asyncio.get_running_loop().time
    began, started = list[tuple[int, float]](), clock()

    async def call(number: int) -> None:
        await pacing.throttle("module", 2, 0.05)
        began.append((number, clock() - started))

    await asyncio.gather(*(call(number) for number in range(6)))
    assert [number // 2 for number, _ in began] == [0, 0, 1, 1, 2, 2]
    assert [after >= number // 2 * 0.05 - 0.001 for number, after in began] == [True] * 6


@pytest.mark.parametrize("most", [1, 3])
async def test_at_most_so_many_calls_of_a_module_run(most: int) -> None:
    pacing, running, seen = Pacing(), 0, list[int]()

    async def call() -> None:
        nonlocal running
        async with pacing.concurrency("module", most):
            running += 1
            seen.append(running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(call() for _ in range(10)))
    assert max(seen) == most
